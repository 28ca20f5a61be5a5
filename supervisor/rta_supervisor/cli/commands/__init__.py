"""Commands of an operator, one module each, whose `command` is imported by `cli.entry`. `sessions` is a package of its
own.

A module turns options into a call of another package and prints the result; what the result is, that package decides.
"""
