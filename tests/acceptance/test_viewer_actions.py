"""What people do with a session in the viewer besides looking: links, layouts, files, replay, comparison."""

import base64
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv
from selenium.webdriver.common.keys import Keys

from tests.acceptance import browser as browsers
from tests.acceptance.browser import Browser
from tests.acceptance.viewer_site import (
    NS_PER_S,
    START_NS,
    ViewerSite,
    closed_session,
    lines,
    set_value,
    show,
    wait_for_samples,
    write_wave,
    written_session,
    zoom,
)
from tests.support.waiting import wait_until

pytestmark = browsers.needs_browser

SAVED_COLUMNS = {"channel": pa.uint32(), "time": pa.int64(), "value": pa.float64()}


def test_an_address_brings_a_view_back_and_layouts_are_kept(page: Browser, site: ViewerSite) -> None:
    """The address holds session, panes and range; a layout that was saved is there after a reload."""
    closed_session(site, "views")
    show(page, site, session="views", panes="1-2.3")
    wait_for_samples(page, 3000)
    zoom(page, 5, 6)
    wait_for_samples(page, 100)
    wait_until(lambda: f"from={START_NS + 5 * NS_PER_S}" in page.driver.current_url, what="the range")
    address = page.driver.current_url
    page.element("#layouts summary").click()
    page.element("#layout-name").send_keys("three in two", Keys.ENTER)
    page.driver.get("about:blank")
    page.driver.get(address)
    drawn = wait_for_samples(page, 100)
    assert [line["channel"] for line in drawn] == [1, 2, 3]
    assert len(page.elements(".pane")) == 2
    show(page, site, session="views", panes="3")
    wait_for_samples(page, 3000)
    page.element("#layouts summary").click()
    page.element("#layout-list button").click()
    wait_until(lambda: len(page.elements(".pane")) == 2, what="the panes of the layout")


def test_what_is_visible_can_be_saved(page: Browser, site: ViewerSite, tmp_path: Path) -> None:
    """CSV and Arrow with exactly the samples in Redis of the visible range, and a picture with the lines."""
    closed_session(site, "saved")
    page.driver.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    show(page, site, session="saved", panes="1.2")
    wait_for_samples(page, 3000)
    zoom(page, 1, 2)
    wait_for_samples(page, 100)
    for form in ("csv", "arrow", "png"):
        save(page, form)
        wait_until((tmp_path / f"saved.{form}").exists, what=f"the file .{form}")
    first_ns, end_ns = START_NS + NS_PER_S, START_NS + 2 * NS_PER_S
    stored = {sample for sample in site.stored_samples("saved") if sample[0] < 3 and first_ns <= sample[1] < end_ns}
    assert len(stored) == 200
    for table in (csv.read_csv(tmp_path / "saved.csv"), pa.ipc.open_stream(tmp_path / "saved.arrow").read_all()):
        columns = [table[name].cast(kind).to_pylist() for name, kind in SAVED_COLUMNS.items()]
        saved = list(zip(*columns, strict=True))
        assert len(saved) == len(stored)
        assert set(saved) == stored
    picture = base64.b64encode((tmp_path / "saved.png").read_bytes()).decode()
    counts: Any = page.driver.execute_async_script(LINE_PIXELS, picture)
    assert min(counts) > 100, "pixels in the colours of both lines"
    [height] = struct.unpack(">I", (tmp_path / "saved.png").read_bytes()[20:24])
    assert height > int(str(page.run("return document.querySelector('.pane canvas').height"))), "names above the plot"


def save(page: Browser, form: str) -> None:
    """Chooses a form and presses the button."""
    set_value(page, "export-form", form)
    page.element("#export").click()


def test_a_closed_session_is_replayed(page: Browser, site: ViewerSite) -> None:
    """A replay begins at the beginning, moves on at its speed, follows the scrubber, and ends at the end."""
    closed_session(site, "replayed")
    show(page, site, session="replayed")
    wait_for_samples(page, 3000)
    page.element("#replay").click()
    page.wait_for_text("#replay", "Pause")
    start_s, started_s = replay_place(page)
    assert page.run("return viewer.range.replayEnd === viewer.range.first"), "where it began"
    wait_until(lambda: replay_place(page)[0] > start_s + 0.2, what="a picture that moves")
    place_s, now_s = replay_place(page)
    assert place_s - start_s == pytest.approx(now_s - started_s, rel=0.01), "at the speed of the session"
    set_value(page, "scrubber", "800")
    assert replay_place(page)[0] >= 23
    assert int(str(page.run("return viewer.view().end"))) >= START_NS + 23 * NS_PER_S, "a link brings back the place"
    set_value(page, "speed", "50")
    page.wait_for_text("#replay", "Replay")
    assert page.run("return viewer.range.at(performance.now(), false)[1] === viewer.range.last")


def replay_place(page: Browser) -> tuple[float, float]:
    """Where the picture ends, in seconds since the beginning of the data, and the time of the page."""
    script = """const now = performance.now();
    return [(viewer.range.at(now, false)[1] - viewer.model.first) / 1e9, now / 1e3];"""
    place: Any = page.run(script)
    return place[0], place[1]


def test_two_sessions_are_compared(page: Browser, site: ViewerSite, tmp_path: Path) -> None:
    """Another session stands beside the first, aligned at their beginnings or by time, and is saved with it."""
    page.driver.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    closed_session(site, "first")
    site.client.session("third", stream="rig", identifier="Third one").close()
    with written_session(site, "second") as writer:
        write_wave(writer, (1,), 1000, start_ns=START_NS + 5 * NS_PER_S)
    show(page, site, session="first", panes="1", other="second", align="start")

    def starts() -> list[float]:
        """When the lines begin, in tenths of a second."""
        return [round(line["times"][0] / NS_PER_S, 1) for line in lines(page) if line["times"]]

    wait_until(lambda: starts() == [0, 0], what="both at their beginning")
    zoom(page, 1, 2)
    wait_until(lambda: [line["count"] for line in lines(page)] == [100, 100], what="a second of both")
    save(page, "csv")
    files = [tmp_path / "first.csv", tmp_path / "second.csv"]
    wait_until(lambda: all(file.exists() for file in files), what="a file of each")
    firsts = [csv.read_csv(file)["time"][0].cast(pa.int64()).as_py() - START_NS for file in files]
    assert firsts == [1 * NS_PER_S, 6 * NS_PER_S], "of what stands at the same place"
    page.run("viewer.actions.whole()")
    set_value(page, "alignment", "time")
    wait_until(lambda: starts() == [0, 5], what="the second one later by five seconds")
    other = page.element("#other")
    other.clear()
    other.send_keys("THIRD O")
    suggested = (
        "return [...document.querySelectorAll('#other-list option')].map(({value, label}) => `${value}: ${label}`)"
    )
    wait_until(lambda: page.run(suggested) == ["third: Third one (closed)"], what="a session to choose")


LINE_PIXELS = """
const [picture, done] = arguments;
const bytes = Uint8Array.from(atob(picture), (byte) => byte.charCodeAt(0));
createImageBitmap(new Blob([bytes])).then((bitmap) => {
  const pen = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
  const wanted = viewer.panes.styles.tracks.slice(0, 2).map((colour) => colour.match(/\\d+/g).slice(0, 3).map(Number));
  pen.drawImage(bitmap, 0, 0);
  const { data } = pen.getImageData(0, 0, bitmap.width, bitmap.height);
  const counts = wanted.map(() => 0);
  for (let at = 0; at < data.length; at += 4) {
    wanted.forEach((colour, index) => {
      if (colour.every((part, offset) => Math.abs(part - data[at + offset]) < 40)) counts[index] += 1;
    });
  }
  done(counts);
});
"""
"""A script that counts the pixels of a picture which have about the colours of the first two lines."""
