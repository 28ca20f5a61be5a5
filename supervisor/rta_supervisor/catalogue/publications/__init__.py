"""What a Session Service was told of each session: two tables of the catalogue, beside those of its own version.

Owns what is due to be told; the telling is left to `publish`.
"""
