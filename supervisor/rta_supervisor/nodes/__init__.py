"""Supervisors side by side: registration, leases of duties, and the clock that they share."""
