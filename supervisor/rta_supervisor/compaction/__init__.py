"""Compaction: what nobody writes to any more is moved out of live streams into batches that take less memory."""
