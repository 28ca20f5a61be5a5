"""Configurations, which say what the channels of sessions are: published once, kept in Redis while sessions are bound
to them, and in the catalogue for ever.
"""
