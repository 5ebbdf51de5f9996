"""Numbers of evaluate."""
