"""The live page: one static page, a stream of what changes, and a plot of a session's channels."""
