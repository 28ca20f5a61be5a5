"""What differs over Spark Connect: the driver is a server without our process, reached through artifacts and plans."""

import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from rta_writers.options import arguments

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource  # `ship` works on Sparks that have none too

_SHIPPED: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
"""Sessions that were sent packages and have no registration since: a registration notes what tasks can import."""


def check_session(spark: Any) -> None:
    """Raise where something is no Spark session, of either kind: Spark Connect has a class of its own."""
    if not (hasattr(spark, "conf") and hasattr(spark, "newSession")):
        raise arguments.refuse("spark", spark, "a SparkSession")


def is_remote(spark: Any) -> bool:
    """Whether a session is one of Spark Connect, which has no `sparkContext`."""
    return getattr(spark, "sparkContext", None) is None


def send(spark: Any, code: Path, archive: str) -> None:
    """Send the zip and the archive (`path#folder`) to the server, which gives them to the tasks of this session."""
    spark.addArtifacts(str(code), pyfile=True)
    # The client puts the zip on its own path too. It is gone soon, and the client has the packages.
    sys.path[:] = [entry for entry in sys.path if entry != str(code)]
    spark.addArtifacts(archive, archive=True)
    _SHIPPED.add(spark)


def register(spark: Any, source: type["DataSource"]) -> None:
    """Register a data source with the server, unless that knows it: to replace one is a warning in its log."""
    if spark in _SHIPPED or not _is_known(spark, source.name()):
        spark.dataSource.register(source)
        _SHIPPED.discard(spark)


def _is_known(spark: Any, name: str) -> bool:
    """Whether the server has a data source of this name, registered or found in its Python, and can import it."""
    try:
        # With a schema nothing is asked of the data source but that it can be made.
        assert spark.read.format(name).schema("time bigint").load().schema
    except PySparkException:
        return False
    return True
