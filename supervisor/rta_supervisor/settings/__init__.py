"""The settings: their sections, the sources of their values, secrets among them, and reloading. Knows no other part."""
