"""Python processes of Spark that serve many tasks and triggers, one after another."""

import functools
import gc
import os


@functools.cache
def freeze_gc() -> None:
    """Once in each process: what is imported by now stays, and the collector need not look at it ever again.

    Spark collects all garbage after each task, plan and commit. With our packages, redis and pyarrow that took about
    50 ms of a core each time, four times in a trigger on two cores.
    """
    if os.environ.get("SPARK_REUSE_WORKER"):
        gc.collect()
        gc.freeze()
