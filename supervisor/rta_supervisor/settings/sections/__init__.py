"""The sections of the settings, a module each: fields, defaults, and what a section checks about itself alone."""
