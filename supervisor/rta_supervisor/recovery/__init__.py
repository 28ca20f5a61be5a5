"""Recovery after Redis lost data: detects it, restores the sessions that were open, and publishes closed ones again
where an operator asks for it. What a session is, and how it ends, is left to `session`.
"""
