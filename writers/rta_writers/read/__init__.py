"""Streams to rows: which entries to read, in which parts, as Arrow batches."""
