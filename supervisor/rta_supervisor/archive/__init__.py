"""The archive: closed sessions as Parquet files, and what waits for them to be there."""
