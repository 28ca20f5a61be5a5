"""The sections of the settings, each in a module of its name: fields, defaults, and what a section checks about itself
alone. `checks` has what their checks share, `postgres_dsn` the connection string of section `[catalogue]`.
"""
