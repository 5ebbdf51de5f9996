"""Words: tokens, lexicons, refusals, embeddings. Imports nothing of ours."""
