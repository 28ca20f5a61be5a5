"""The settings: where they come from, what they mean, which of them can change while the daemon runs."""
