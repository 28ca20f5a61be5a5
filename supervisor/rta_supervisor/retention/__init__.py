"""What leaves Redis and what stays: trimming of streams, removal of idle streams and old days, and what is kept until
the archive has it. Also the index of days, and so the stream that a new session of a source goes to.

Batches of compacted entries are trimmed by `compaction`; the files of the archive are made by `archive`.
"""
