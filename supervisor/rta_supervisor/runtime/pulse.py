"""Tells systemd all the time how we are: what we do, and that we get somewhere. Where loops are stuck it says nothing,
and systemd starts us anew.
"""
