"""What Spark sends to its Python processes, wrapped so that one without `rta_writers` is told what to do.

Planners on the driver and tasks on executors unpickle classes and objects of these packages by importing them. Where
they can't, Spark's error names a module and nothing else. Functions and classes here are pickled by value instead: they
run without the package, and import what they use themselves.
"""

import os
import pickle
from typing import Any, Final

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource

BY_VALUE: Final = "__main__"
"""Spark's pickler sends functions of this module as code, and those of others as names to import."""

ARTIFACTS: Final = "SPARK_JOB_ARTIFACT_UUID"
"""In processes that plan a query: the folder with the artifacts of its session."""


def load(pickled: bytes, artifacts: str = "") -> Any:
    """Unpickle what needs `rta_writers`, in any Python process of Spark.

    Tasks of a streaming query over Spark Connect have what was shipped, but not on their path: Spark 4.3 leaves out
    the name of the folder, which is `artifacts`.
    """
    import os  # noqa: PLC0415 - runs where this module can't be imported
    import socket  # noqa: PLC0415
    import sys  # noqa: PLC0415

    folders = [os.path.join(entry, artifacts) for entry in sys.path if artifacts]  # noqa: PTH118 - entries may be zips
    for folder in filter(os.path.isdir, folders):
        sys.path += [folder, os.path.join(folder, "rta_writers.zip")]  # noqa: PTH118
    try:
        return pickle.loads(pickled)  # noqa: S301 - from the driver, as all that Spark runs
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error} in {sys.executable} on host {socket.gethostname()}. Python processes of Spark need the package "
            "rta-supervisor: install it on the driver and all executors (pip install rta-supervisor) and let "
            "PYSPARK_PYTHON name the interpreter that has it, or call rta_writers.ship(spark) before "
            "rta_writers.register(spark)",
            name=error.name,
        ) from None


def restore(pickled: bytes, artifacts: str) -> Any:
    """An object of a class with base `Guarded`, in any Python process of Spark."""
    made_class, state = load(pickled, artifacts)
    restored = object.__new__(made_class)
    restored.__dict__.update(state)
    return restored


load.__module__ = restore.__module__ = BY_VALUE


def _dumps(value: Any) -> bytes:
    """Pickled by Spark's pickler: classes of the program itself are sent as code, those of modules by name."""
    pickled: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return pickled


class Guarded:
    """Base of readers and writers, which Spark sends to tasks."""

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (_dumps((type(self), vars(self))), os.environ.get(ARTIFACTS, ""))


def guarded_source(source_class: type[DataSource], **attributes: Any) -> type[DataSource]:
    """A class that Spark can register in place of a data source, whose instances get these attributes."""
    name = source_class.name()
    pickled = _dumps((source_class, attributes))

    class RegisteredDataSource(DataSource):
        """Stands for the data source in the planner, and makes one where it can be imported."""

        def __new__(cls, options: dict[str, str]) -> Any:
            imported_class, state = load(pickled)
            source = imported_class(options)
            source.__dict__.update(state)
            return source

        @classmethod
        def name(cls) -> str:
            return name

    return RegisteredDataSource
