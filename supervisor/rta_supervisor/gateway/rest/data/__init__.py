"""Samples and events of a session, from wherever they are: which blocks cover which time, and answers made of them."""
