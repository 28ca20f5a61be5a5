"""`python -m rta_supervisor`, the same as the command `rta-supervisor`."""

import sys

from rta_supervisor.cli import entry as cli_entry

sys.exit(cli_entry.main())
