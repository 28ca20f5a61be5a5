"""The pages of documentation that use Spark: every command in them is run, and what they show is what comes out."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import doc_pages, samples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("page", [page for page in doc_pages.NAMES if doc_pages.wants_spark(page)])
def test_every_command_of_a_page_works(page: str, tmp_path: Path, spark: "SparkSession") -> None:
    """Blocks in their order, with a frame of samples and one of laps that the text takes for granted."""
    rows = [(channel, samples.START_NS + n, float(n)) for channel in (1, 2) for n in range(50)]
    columns = "channel int, time bigint, value double"
    laps = [(f"lap-{row[0]}", *row) for row in rows]
    frames = {
        "samples": spark.createDataFrame(rows, columns),
        "laps": spark.createDataFrame(laps, f"session string, {columns}"),
    }
    with doc_pages.deployment() as url:
        doc_pages.run_all(page, url, tmp_path, {"url": url, "spark": spark, **frames})
