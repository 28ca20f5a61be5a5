"""Recovery after Redis lost data: detects it, restores the sessions that were open, and resurrects any session
of the catalogue that an operator asks for. What a session is, and how it ends, is left to `session`.
"""
