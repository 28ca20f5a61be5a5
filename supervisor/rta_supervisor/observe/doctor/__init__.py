"""`rta-supervisor doctor`: checks of a deployment, each with a finding and what to do about it. `repair` alone
changes anything: one key, after a question."""
