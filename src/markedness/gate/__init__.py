"""`markedness gate`: whether a model may take the place of another, by the Scores of both."""
