"""Messages between writers and supervisor: requests, reports, and the totals that they carry."""
