"""Bursts of a unit into the stream of a session, by delivery guarantee: exactly once, at least once, or staged.

An appender sends groups of rows, repeats what was lost on the way and knows what is written. What a task does with it
is in `write/task.py`.
"""
