"""`rta-supervisor sessions`: a module for each thing that can be done with sessions."""
