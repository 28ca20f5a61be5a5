"""The ACL files of conf/acl, filled in as an operator would, and a server that runs with them."""

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import redis

from rta_supervisor.embedded import server

FILES = Path(__file__).parents[2] / "conf" / "acl"
PASSWORD = "only-for-tests"  # noqa: S105 - of a server that lives for a minute
PRINCIPALS = ("rig-4", "rig-5")

WITHOUT_LEAVE = {"auth", "hello", "quit", "reset"}
"""What everybody may do, whatever the ACL says: it comes before signing in."""

WRITER = "writer-rig-4"
ROLES = ("supervisor", WRITER, "reader")


def lines(principals: Sequence[str] = PRINCIPALS) -> list[str]:
    """One user for each role, a writer for each principal, and tests themselves as the default user."""
    digest = hashlib.sha256(PASSWORD.encode()).hexdigest()
    texts = {path.stem: path.read_text().replace("PASSWORD_SHA256", digest) for path in sorted(FILES.glob("*.acl"))}
    writer = texts.pop("writer")
    writers = [writer.replace("PRINCIPAL", name).replace("PREFIX", f"{name}.") for name in principals]
    return ["user default on nopass ~* &* +@all\n", *texts.values(), *writers]


@contextlib.contextmanager
def running(principals: Sequence[str] = PRINCIPALS, *, port: int | None = None) -> Iterator[server.EmbeddedServer]:
    with tempfile.TemporaryDirectory(prefix="rtas-acl-") as folder:
        path = Path(folder) / "users.acl"
        path.write_text("".join(lines(principals)))
        # Nothing but the ACL stands in anybody's way.
        options = {"aclfile": str(path), "enable-debug-command": "yes", "enable-module-command": "yes"}
        with server.running(port=port, options=options) as own:
            yield own


def granted(client: redis.Redis, user: str) -> set[str]:
    """The commands that a user has, one by one."""
    words = next(line.split() for line in map(str, client.acl_list()) if line.split()[1] == user)
    assert "+@all" not in words
    return {word.strip("+()") for word in words if word.startswith("+")}
