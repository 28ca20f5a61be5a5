"""Several supervisors on one Redis: their registry, leases of duties, the clock that they share, and the loop of
periodic duties.

What a duty does is left to the packages above.
"""
