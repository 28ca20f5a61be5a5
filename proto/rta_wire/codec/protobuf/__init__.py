"""Protobuf's wire format in numpy: varints, fields, and a scan of fields. Knows no message of ours."""
