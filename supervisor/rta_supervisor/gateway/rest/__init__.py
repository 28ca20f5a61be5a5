"""REST: sessions, configurations and data under `/rta/v2`."""
