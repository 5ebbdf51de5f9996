"""Word work of clean and featurize."""
