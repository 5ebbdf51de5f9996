"""Tables, figures and pages made of estimates."""
