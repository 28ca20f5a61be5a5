"""Who may look: tokens from a file, tokens that another service signed, and browsers on this host."""
