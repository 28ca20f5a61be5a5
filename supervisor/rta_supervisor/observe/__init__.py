"""What operators see of a deployment: summaries, observations, metrics, health, history, findings, and entries of a
session.

Changes nothing but the counts of its own history. How it is printed or served is left to `cli` and `web`.
"""
