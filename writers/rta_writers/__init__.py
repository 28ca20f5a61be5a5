"""What a Spark job imports: sessions for the driver, and the data source `rta` for its rows.

import rta_writers

rta_writers.register(spark)
with rta_writers.SessionClient(url).session("run-17", stream="rocket-engine") as session:
    samples.write.format("rta").mode("append").options(**session.options).save()
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from rta_writers import shipped

shipped.activate()

from rta_writers.client import Session, SessionClient  # noqa: E402 - what was shipped has to be found first

if TYPE_CHECKING:
    from rta_writers.burst_writer import BurstWriter, write_partition
    from rta_writers.group import SessionGroup, sessions
    from rta_writers.shipping import ship
    from rta_writers.spark import deterministic, register, tune

__all__ = [
    "BurstWriter",
    "Session",
    "SessionClient",
    "SessionGroup",
    "deterministic",
    "register",
    "sessions",
    "ship",
    "tune",
    "write_partition",
]

_LATER: Final = {
    "register": "rta_writers.spark",
    "tune": "rta_writers.spark",
    "deterministic": "rta_writers.spark",
    "ship": "rta_writers.shipping",
    "BurstWriter": "rta_writers.burst_writer",
    "write_partition": "rta_writers.burst_writer",
    "SessionGroup": "rta_writers.group",
    "sessions": "rta_writers.group",
}
"""Where the other names live: they are imported when they are used, and some of them need Spark."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
