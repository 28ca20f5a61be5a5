"""`rta-supervisor demo`: three cars stream through Spark on an embedded server; every sample is read back and checked.

The only package that uses both the supervisor and the writers.
"""
