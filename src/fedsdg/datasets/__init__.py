"""Generated data with known truth: which columns really carry the label."""
