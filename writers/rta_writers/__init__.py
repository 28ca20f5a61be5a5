"""What a Spark job imports: sessions for the driver, and the data source `rta` for its rows.

Exports names. Before that it puts packages which `ship` sent to an executor on `sys.path`.

import rta_writers

rta_writers.register(spark)
with rta_writers.SessionClient(url).session("run-17", stream="rocket-engine") as session:
    samples.write.format("rta").mode("append").options(**session.options).save()
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from rta_writers.spark import shipped_path

shipped_path.activate()

from rta_wire import errors  # noqa: E402 - shipped packages have to be on the path
from rta_writers.control.channels import Channels  # noqa: E402 - shipped packages have to be on the path
from rta_writers.control.client import SessionClient  # noqa: E402 - shipped packages have to be on the path
from rta_writers.control.session import Session  # noqa: E402 - shipped packages have to be on the path
from rta_writers.control.session_info import SessionInfo  # noqa: E402 - shipped packages have to be on the path

if TYPE_CHECKING:
    from rta_writers.control.group import SessionGroup, sessions
    from rta_writers.spark.driver import check, deterministic, register, tune
    from rta_writers.spark.ship_packages import ship
    from rta_writers.write.burst_writer import BurstWriter
    from rta_writers.write.partition_writer import write_partition

__all__ = [
    "BurstWriter",
    "Channels",
    "Session",
    "SessionClient",
    "SessionGroup",
    "SessionInfo",
    "check",
    "deterministic",
    "register",
    "sessions",
    "ship",
    "tune",
    "write_partition",
]

_MODULES: Final = {
    "register": "rta_writers.spark.driver",
    "check": "rta_writers.spark.driver",
    "tune": "rta_writers.spark.driver",
    "deterministic": "rta_writers.spark.driver",
    "ship": "rta_writers.spark.ship_packages",
    "BurstWriter": "rta_writers.write.burst_writer",
    "write_partition": "rta_writers.write.partition_writer",
    "SessionGroup": "rta_writers.control.group",
    "sessions": "rta_writers.control.group",
}
"""Modules of the other names. They are imported when a name is first used: some of them need Spark."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        try:
            return getattr(importlib.import_module(_MODULES[name]), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "pyspark":
                raise
            raise errors.Unavailable(
                what=f"rta_writers.{name}",
                reason="it needs PySpark, which is not installed. Install it with: pip install 'rta-supervisor[spark]'",
            ) from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
