"""The live page: static files, a stream of what changed in the deployment; the data itself is in the viewer."""
