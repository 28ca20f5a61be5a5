"""Where rows are kept: what a SQLite file and a PostgreSQL have in common, and which of the two it is."""
