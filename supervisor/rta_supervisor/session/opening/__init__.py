"""Opening sessions: what an open may be given, external ids, and how many sessions a principal may have open."""
