"""`make watch` as a newcomer has it: named channels move in a browser, and after Ctrl-C the sessions are archived."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.acceptance import browser as browsers
from tests.acceptance.viewer_site import lines
from tests.support.waiting import wait_until

SCREENSHOT = Path(__file__).parents[2] / "docs" / "viewer.png"
"""The picture in the README. Made anew where RTA_SCREENSHOT is set."""

pytestmark = browsers.needs_browser


@pytest.fixture
def state() -> Iterator[Path]:
    """A directory for catalogue and archive."""
    with tempfile.TemporaryDirectory(prefix="rtas-watch-") as directory:
        yield Path(directory) / "state"


@pytest.mark.timeout(170)
def test_cars_are_watched_and_archived(state: Path) -> None:
    """Speed in km/h and gears as texts are on the page; then three sessions are files with their names, and it ends
    with 0."""
    output = state.with_name("output")
    with output.open("wb") as sink:
        command = [sys.executable, "-m", "rta_supervisor", "demo", "--watch", str(state)]
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: "three of them drive" in output.read_text(), timeout_s=60, what="the cars")
        address = re.search(r"http://127\.0\.0\.1:\d+/", output.read_text())
        assert address is not None
        look(address.group())
        process.send_signal(signal.SIGINT)
        assert process.wait(90) == 0, output.read_text()
    finally:
        process.kill()
        process.wait()
    names = {
        name
        for path in state.glob("archive/date=*/source=track/session=*/**/part-*.parquet")
        for name in pq.read_table(path, columns=["name"])["name"].unique().to_pylist()
    }
    assert {"vCar", "nEngine", "NGear"} <= names
    assert len(list(state.glob("archive/date=*/source=track/session=*"))) == 3


def look(address: str) -> None:
    """Opens the first session of the list and waits until its channels move."""
    with browsers.running() as page:
        page.emulate(1280, 720)
        page.driver.get(address)
        page.wait_for_text("#sessions", "Car 1")
        page.element("#sessions a").click()
        wait_until(lambda: [line for line in lines(page) if line["count"] > 200], what="moving lines")
        drawn = {line["name"]: line["unit"] for line in lines(page)}
        assert drawn == {"vCar": "km/h", "nEngine": "rpm", "NGear": ""}
        # Texts follow the picture a few times a second.
        wait_until(lambda: re.search(r"NGear\s+≈? ?\d(st|nd|rd|th)", page.text("#values")), what="a gear as a text")
        if os.environ.get("RTA_SCREENSHOT"):
            wait_until(lambda: lines(page)[0]["count"] > 3500, timeout_s=60, what="a picture with something on it")
            page.driver.save_screenshot(str(SCREENSHOT))
        assert page.console_errors() == []
