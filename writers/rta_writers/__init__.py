"""What a Spark job imports: sessions for the driver, and the data source `rta` for its rows.

import rta_writers

rta_writers.register(spark)
with rta_writers.SessionClient(url).session("run-17", stream="rocket-engine") as session:
    samples.write.format("rta").mode("append").options(**session.options).save()
"""

from typing import TYPE_CHECKING

from rta_writers.client import Session, SessionClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Session", "SessionClient", "register"]


def register(spark: "SparkSession") -> None:
    """Make `format("rta")` known to a Spark session."""
    from rta_writers.source import RtaDataSource  # noqa: PLC0415 - a program without Spark imports us too

    spark.dataSource.register(RtaDataSource)
