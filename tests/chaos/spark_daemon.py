"""Spark's daemon of Python workers with everything loaded before it forks, so that a worker that died costs little."""

import pandas  # type: ignore[import-untyped] # noqa: F401 - Spark loads it in every worker
import pyarrow as pa  # noqa: F401 - as above
from pyspark import daemon

import rta_writers  # noqa: F401 - as above

if __name__ == "__main__":
    daemon.manager()
