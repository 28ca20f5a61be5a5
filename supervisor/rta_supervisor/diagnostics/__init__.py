"""What the daemon reports about itself: log, counters, recent events, and loops that are stuck.

How these are shown, as metrics, health or a page, is left to the packages above.
"""
