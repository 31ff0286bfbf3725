"""The paper's figures redrawn: one file per experiment, each from rows to plots."""
