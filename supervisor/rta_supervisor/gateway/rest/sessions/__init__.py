"""Sessions over REST: every session once, from Redis while it is live and from the catalogue after that."""
