"""Keeps the garbage collector cheap in Python processes of Spark, which serve many tasks one after another."""

import functools
import gc
import os


@functools.cache
def freeze_gc() -> None:
    """Exclude what is imported by now from garbage collection. Works once in each process.

    Spark collects all garbage after each task, plan and commit. With these packages, redis and pyarrow that took about
    50 ms of a core each time, four times in a trigger on two cores.
    """
    if os.environ.get("SPARK_REUSE_WORKER"):
        gc.collect()
        gc.freeze()
