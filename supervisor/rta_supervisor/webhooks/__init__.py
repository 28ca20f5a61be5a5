"""Posts state changes of sessions to configured URLs, at least once each, apart from the sessions' own life."""
