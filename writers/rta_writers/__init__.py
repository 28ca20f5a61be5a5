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
    from rta_writers.spark import deterministic, register, tune

__all__ = ["Session", "SessionClient", "deterministic", "register", "tune"]

_LATER: Final = {
    "register": "rta_writers.spark",
    "tune": "rta_writers.spark",
    "deterministic": "rta_writers.spark",
}
"""Where names live that need Spark: a program without it imports us too."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
