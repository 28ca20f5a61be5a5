"""Redis lost data: finds it, publishes sessions again, and brings back those that Redis forgot."""
