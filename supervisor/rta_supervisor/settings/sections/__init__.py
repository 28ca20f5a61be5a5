"""The sections of the settings, a module each, with what is checked of them at the start."""
