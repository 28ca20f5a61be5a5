"""Control messages between writers and supervisor as bytes: requests, replies, reports, and the totals in reports.

What the supervisor does with them is its own; names of control streams are in `rta_wire.keys`.
"""
