"""Numbers: estimators, intervals and tests. Imports nothing of ours but `markedness.results`."""
