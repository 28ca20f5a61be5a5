"""Programs that are started from here: a private Valkey server and a Java runtime out of wheels, and processes that end
with the one that started them. Serves the demo, the Spark job of the archive and tests; knows nothing of sessions.
"""
