"""`rta-supervisor sessions`: one module for each thing that can be done with sessions, and the group of them."""
