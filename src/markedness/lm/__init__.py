"""Asking language models: backends, the ledger, and what collects answers."""
