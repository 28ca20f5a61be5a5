"""The Spark job that writes closed sessions as Parquet files, and counts them again."""
