"""Options of the data source, parsed once: what to write, what to read, and which session."""
