"""Sections of what listens: `[http]` for operators, `[gateway]` for viewers."""
