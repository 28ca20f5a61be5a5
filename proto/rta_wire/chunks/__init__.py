"""Chunks of data as the REST API sends them: which samples make a chunk, its messages, and the bytes around them.

Does no I/O. Samples come as numpy columns, sorted by the caller or by `windows`; where they are read from is not known
here.
"""
