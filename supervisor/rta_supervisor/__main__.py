"""The program `rta-supervisor`, and `python -m rta_supervisor`. Where only the writers are installed it says so."""

import sys
from typing import Final

UNAVAILABLE: Final = 69


def main() -> int:
    """Run the program. Gives its exit code."""
    try:
        from rta_supervisor.cli import entry  # noqa: PLC0415 - may be missing what it needs
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing.startswith("rta_"):
            raise
        print(
            f"rta-supervisor: The package {missing!r} is not installed: what Spark jobs need is there, the command "
            "line is not. Install it with: pip install 'rta-supervisor[daemon]'",
            file=sys.stderr,
        )
        return UNAVAILABLE
    return entry.main()


if __name__ == "__main__":
    sys.exit(main())
