"""Everything the server does, and all it ever holds: labels, top model, noisy weights. Audit it by reading here."""
