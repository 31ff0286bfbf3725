"""Everything a client does, and all it ever holds: its columns, its key, its shares. Audit a client by reading here."""
