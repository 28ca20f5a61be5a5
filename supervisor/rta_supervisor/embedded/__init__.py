"""Programs that the supervisor starts as child processes: a private Valkey server out of a wheel, and Spark on a Java
runtime that the host has or a wheel brings. A child process ends with its parent.

Used by the demo, the Spark job of the archive and tests; knows nothing of sessions.
"""
