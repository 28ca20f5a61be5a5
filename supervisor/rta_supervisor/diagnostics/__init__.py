"""What the daemon says of itself: log, counters, recent events, and loops that stand still."""
