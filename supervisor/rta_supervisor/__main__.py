"""`python -m rta_supervisor`, the same as the command `rta-supervisor`."""

import sys

from rta_supervisor import cli

sys.exit(cli.main())
