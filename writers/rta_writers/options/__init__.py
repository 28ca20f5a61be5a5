"""Options of the data source: their names, what each may be, and the values that they are parsed into.

Pure: nothing here connects to Redis or imports Spark.
"""
