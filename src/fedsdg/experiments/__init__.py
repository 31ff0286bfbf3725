"""The paper's comparisons as commands: one file per question, honest splits, resumable."""
