"""What Spark calls: the data source, its readers and writers, counters, and what is set up on the driver.

Translates between Spark and the packages `read` and `write`, which do the work. This file imports nothing:
`shipped_path` has to run before anything that may have been shipped is imported.
"""
