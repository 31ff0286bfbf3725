"""Tables, and what a party does to its own columns before learning: splitting, preparing, binning."""
