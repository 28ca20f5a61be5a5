"""The daemon: everything wired together, started, watched and stopped."""
