"""The query dialect of the REST API: criteria and sort orders over Session JSON. Values only: no I/O.

Where the documents come from, and what of them is kept in columns, is up to the caller.
"""
