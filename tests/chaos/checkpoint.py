"""What Spark noted of a streaming query: epochs that it planned, and epochs that it knows to be written."""

from pathlib import Path


class Checkpoint:
    """A folder of Spark's, from outside."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def planned(self) -> int:
        return len(self._epochs("offsets"))

    def committed(self) -> int:
        return len(self._epochs("commits"))

    def tear_last_commit(self) -> int:
        """As if the driver had been killed after the last epoch was written and before Spark noted that."""
        committed = self._epochs("commits")
        for epoch in committed[-1:]:
            for name in (str(epoch), f".{epoch}.crc"):
                (self._path / "commits" / name).unlink(missing_ok=True)
        return len(committed[-1:])

    def _epochs(self, folder: str) -> list[int]:
        directory = self._path / folder
        return (
            sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit()) if directory.exists() else []
        )
