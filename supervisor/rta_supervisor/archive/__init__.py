"""The archive: closed sessions as Parquet files, each verified against its stream and described by a manifest.

Owns the folders of the archive, the run that fills them, and the record that a session is archived. The Spark job that
reads streams and writes files is in `rta_writers.archive`; what Redis keeps until the archive has it is decided in
`retention`.
"""
