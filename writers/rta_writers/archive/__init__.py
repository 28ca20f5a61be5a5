"""The Spark job of the archive: sessions to Parquet files, and the same sessions counted again from their streams.

Runs in a process of its own. What is archived and when, and whether files and streams agree, is decided by the
supervisor; `rta_wire.archive_spec` is what the two exchange.
"""
