"""Methods to compare with: one file per method, all over the same parties and the same final model."""
