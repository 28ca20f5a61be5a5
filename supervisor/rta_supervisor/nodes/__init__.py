"""Supervisors side by side: their registry, leases of duties, the clock that they share, and the loop of every duty.

What a duty does is left to the packages above.
"""
