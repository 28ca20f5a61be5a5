"""The command line: options, confirmation, tables and JSON, exit codes. Decides nothing about sessions."""
