"""The line for Spark that the demo prints at its end reads the session that it names."""

import pytest
from pyspark.sql import SparkSession

import rta_writers
from rta_supervisor.demo import cars, next_steps
from tests.support import samples

pytestmark = pytest.mark.spark


def test_the_line_for_spark_shows_the_samples(
    spark: SparkSession, sessions: rta_writers.SessionClient, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands, in a session where the source is registered."""
    names = cars.RunNames("0a1b2c3d")
    with (
        sessions.session(names.session(1), stream=names.stream) as session,
        rta_writers.BurstWriter(session.options, unit="car") as writer,
    ):
        writer.samples([7], [samples.START_NS], [0.125])
    (line,) = (line for line in next_steps.next_steps(sessions.url, names, is_kept=True) if line.startswith("  spark."))
    eval(line.strip(), {"spark": spark})  # noqa: S307 - what a person would paste
    assert f"|{names.session(1)}|" in capsys.readouterr().out.replace(" ", "")
