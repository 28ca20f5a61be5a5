"""The command line: what a user types, and what is printed. Decides nothing about sessions."""
