"""Protobuf's wire format: varints in numpy, single fields, and sizes of fields. Knows no RTA message."""
