"""A Spark cluster of two hosts on one machine: Spark starts no speculative twin on the host of the other attempt.

Master and workers live in the JVM of the driver, as those of a local-cluster do. What differs are the addresses: each
worker, and so its executor, has one of its own on the loopback interface.
"""

from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext

HOSTS = ("127.0.0.1", "127.0.0.2")
CORES, MEMORY_MB = 1, 1024

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.minTaskRuntime": "0ms",
    "spark.speculation.efficiency.enabled": "false",
}
"""A task is slow as soon as another one of its stage has ended and it has not."""


def start(work: Path) -> str:
    """The address of the master, for `SparkSession.Builder().master(…)`."""
    SparkContext._ensure_initialized(conf=SparkConf())
    jvm: Any = SparkContext._jvm
    gateway: Any = SparkContext._gateway
    settings = jvm.org.apache.spark.SparkConf(True)
    settings.set("spark.master.rest.enabled", "false")
    deploy = jvm.org.apache.spark.deploy
    master = deploy.master.Master.startRpcEnvAndEndpoint(HOSTS[0], 0, 0, settings)
    address = f"spark://{master._1().address().hostPort()}"
    masters = gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = address
    for number, host in enumerate(HOSTS, 1):
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host,
            0,
            0,
            CORES,
            MEMORY_MB,
            masters,
            str(work / f"worker-{number}"),
            jvm.scala.Some(number),
            settings,
            jvm.scala.Option.apply(None),
        )
    return address
