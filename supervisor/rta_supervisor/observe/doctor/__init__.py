"""`rta-supervisor doctor`: checks of a deployment, each with a finding and what to do about it. Changes nothing."""
