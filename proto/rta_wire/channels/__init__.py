"""What channels and events are: names, units, types, ranges, conversions. The configuration JSON that viewers read, and
files that people write by hand.

Who stores a configuration, and who binds it to a session, is left to others.
"""
