"""The live page: static files, a stream of what changed in the deployment, and a plot of a session's channels."""
