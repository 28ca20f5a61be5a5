"""What a laptop lacks: a Valkey server and a Java runtime out of wheels, for the demo and the tests."""
