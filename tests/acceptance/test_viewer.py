"""The viewer in a real browser, on a real gateway: what it shows is what stands in Redis."""

import base64
import os
import re
import signal
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from selenium.webdriver.common.keys import Keys

import rta_writers
from rta_wire.channels import model
from rta_wire.channels.conversions import RationalConversion, TextConversion
from rta_wire.channels.model import Channel
from rta_wire.codec.layout import SampleType
from tests.acceptance import browser as browsers
from tests.acceptance import viewer_site
from tests.acceptance.browser import Browser
from tests.acceptance.viewer_site import (
    NS_PER_S,
    RATE_HZ,
    START_NS,
    ViewerSite,
    closed_session,
    lines,
    set_value,
    show,
    wait_for_samples,
    wave,
    write_wave,
    written_session,
    zoom,
)
from tests.support import gateways
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(
    browsers.CHROMIUM is None or browsers.DRIVER is None,
    reason="needs Chromium and its driver: apt-get install chromium chromium-driver",
)

SAVED_COLUMNS = {"channel": pa.uint32(), "time": pa.int64(), "value": pa.float64()}
HOSTILE = "<img src=x onerror=window.hit=1><script>window.hit=2</script>"


TOKEN = "0123456789abcdef-viewer"  # noqa: S105 - of this test
HOSTILE_CHANNELS = f"""
application = "hostile"
[[channels]]
name = "{HOSTILE}"
unit = "{HOSTILE}"
description = "{HOSTILE}"
type = "double"
group = "{HOSTILE}"
[[channels]]
name = "text"
type = "double"
group = "{HOSTILE}"
conversion = {{ text = {{ "1" = "{HOSTILE}" }}, default = "?" }}
"""


def test_a_session_is_found_opened_and_drawn_as_it_was_written(page: Browser, site: ViewerSite) -> None:
    """From the list to the plot; every sample that is drawn has the value that was written, also when zoomed in."""
    closed_session(site, "found", identifier="Found it", details={"Rig": 4})
    site.client.session("other", stream="rig", identifier="Still open")
    show(page, site)
    page.wait_for_text("#sessions", "Found it")
    assert page.text("#sessions tbody tr:first-child").startswith("Still open"), "live sessions come first"
    page.element("#stream-filter").send_keys("nowhere")
    page.wait_for_text("#sessions-empty", "No session fits")
    page.element("#stream-filter").clear()
    page.element("#stream-filter").send_keys("ri")
    page.wait_for_text("#sessions", "Found it")
    page.element("#detail-filter").send_keys("Rig=4")
    page.element("#search").send_keys("found it")
    wait_until(lambda: "Still open" not in page.text("#sessions tbody"), what="the filter")
    page.element("#sessions a").click()
    for line in wait_for_samples(page, 3000):
        assert min(line["lows"]) == wave(line["channel"], 3000).min()
        assert max(line["highs"]) == wave(line["channel"], 3000).max()
    zoom(page, 10, 12)
    for line in wait_for_samples(page, 200):
        assert line["lasts"] == wave(line["channel"], 200, 1000).tolist()
    page.driver.back()
    page.wait_for_text("#sessions", "Found it")
    assert page.console_errors() == []


def test_live_sessions_come_first_on_all_pages(page: Browser, site: ViewerSite) -> None:
    """More live sessions than a page has: those that ended begin after the last of them, and each is there once."""
    details = {"Many": 1}
    closed_session(site, "many-ended", 10, details=details)
    sessions = [site.client.session(f"many-{number}", stream="rig", details=details) for number in range(60)]
    show(page, site)
    page.element("#detail-filter").send_keys("Many=1")
    page.wait_for_text("#sessions-count", "50 live, 0 ended")
    page.element("#older").click()
    page.wait_for_text("#sessions-count", "10 live, 1 ended, page 2")
    assert page.text("#sessions tbody tr:last-child").startswith("many-ended")
    assert not page.element("#older").is_displayed()
    page.element("#newer").click()
    page.wait_for_text("#sessions-count", "50 live, 0 ended")
    for session in sessions:
        session.close()
    page.wait_for_text("#sessions-count", "0 live, 50 ended")


def test_a_late_viewer_has_the_past_and_the_present(page: Browser, site: ViewerSite) -> None:
    """History over REST and live samples make one picture: every sample once, across a killed gateway too."""
    start_ns = time.time_ns() // NS_PER_S * NS_PER_S - 60 * NS_PER_S
    session = site.client.session("late", stream="rig")
    past = rta_writers.BurstWriter(session.options, unit="past")
    write_wave(past, (1, 2), 6000, start_ns=start_ns)
    live = viewer_site.LiveWave(session, start_ns + 60 * NS_PER_S)
    show(page, site, session="late", panes="1-2")
    page.wait_for_text("#link", "live")
    wait_until(lambda: [line for line in lines(page) if line["count"] > 500], what="moving lines")
    site.kill_gateway()
    page.wait_for_text("#link", "lost")
    page.wait_for_text("#banner", "old")
    count = live.count
    wait_until(lambda: live.count > count + 100, what="samples that the page misses")
    site.restart_gateway()
    page.wait_for_text("#link", "live")
    count = live.count
    wait_until(lambda: live.count > count + 50, what="samples after the connection was back")
    wait_until(lambda: live.count > 500, what="five seconds of live samples")
    live.stop()
    past.close()
    zoom(page, 59, 65)
    for line in wait_for_samples(page, 600):
        written = [*wave(line["channel"], 100, 5900), *wave(line["channel"], 500)]
        assert line["lasts"] == written, "every sample, before, between and after"
    zoom(page, 0, 60 + live.count / 100)
    wait_for_samples(page, 6000 + live.count)
    session.close()
    page.wait_for_text("#subtitle", "closed")


def test_samples_that_come_late_are_drawn(page: Browser, site: ViewerSite) -> None:
    """A writer may be slower than the others: its samples of times that the page has as history are there all the
    same."""
    session = site.client.session("slow", stream="rig")
    with (
        rta_writers.BurstWriter(session.options, unit="fast") as fast,
        rta_writers.BurstWriter(session.options, unit="slow") as slow,
    ):
        write_wave(fast, (1,), 3000)
        write_wave(slow, (2,), 2000)
        show(page, site, session="slow", panes="1-2", span="60")
        page.wait_for_text("#link", "live")
        wait_until(lambda: [line["count"] for line in lines(page)] == [3000, 2000], what="what was there")
        wait_until(lambda: page.text("#plot-note") == "", what="the end of loading")
        write_wave(slow, (2,), 1000, first=2000)
        wait_for_samples(page, 3000)
    session.close()


def test_the_table_has_the_value_at_the_cursor_and_of_what_is_visible(page: Browser, site: ViewerSite) -> None:
    """Value, lowest, highest and mean are those of the samples that were written."""
    closed_session(site, "table")
    show(page, site, session="table", panes="2")
    wait_for_samples(page, 3000)
    zoom(page, 10, 12)
    wait_for_samples(page, 200)
    page.run("document.getElementById('panes').focus()")
    page.press(*[Keys.SHIFT + Keys.ARROW_LEFT] * 3)
    page.wait_for_text("#cursor-time", ":")
    cursor_ns = float(str(page.run("return viewer.picture.cursor - viewer.model.first")))
    visible = wave(2, 200, 1000)
    value = wave(2, 1, int(cursor_ns * RATE_HZ / NS_PER_S))[0]
    cells = [float(cell.text) for cell in page.elements("#values tbody td.number")]
    assert cells == pytest.approx([value, visible.min(), visible.max(), visible.mean()], rel=1e-5)


def test_a_redis_that_is_away_is_told(page: Browser, site: ViewerSite) -> None:
    """A session and the list say that nothing answers while Redis stands still, and go on by themselves."""
    session = site.client.session("away", stream="rig")
    show(page, site, session="away")
    page.wait_for_text("#link", "live")
    os.kill(site.redis.pid, signal.SIGSTOP)
    try:
        banner = page.wait_for_text("#banner", "Redis does not answer", timeout_s=60)
        assert re.search(r"What you see is \d+ s old", banner)
        assert page.text("#link") == "no answer"
        page.element(".home").click()
        wait_until(lambda: page.text("#banner") or "no answer" in page.text("#link"), timeout_s=40, what="the banner")
    finally:
        os.kill(site.redis.pid, signal.SIGCONT)
    wait_until(lambda: not page.text("#banner"), timeout_s=30, what="the end of the trouble")
    session.close()


def test_a_gateway_that_hangs_is_told(page: Browser, site: ViewerSite) -> None:
    """A gateway that stands still does not close a WebSocket: the page says how old the picture is, and goes on after
    it."""
    with site.client.session("hanging", stream="rig") as session, viewer_site.LiveWave(session, START_NS) as live:
        show(page, site, session="hanging", panes="1")
        wait_until(lambda: [line for line in lines(page) if line["count"] > 50], what="moving lines")
        os.kill(site.gateway.process.pid, signal.SIGSTOP)
        try:
            page.wait_for_text("#banner", "The gateway does not answer. Trying again. What you see is")
            assert page.text("#link") == "no answer"
        finally:
            os.kill(site.gateway.process.pid, signal.SIGCONT)
        wait_until(lambda: not page.text("#banner") and page.text("#link") == "live", what="the end of the trouble")
    zoom(page, 0, live.count / 100)
    wait_for_samples(page, live.count)


def test_a_page_that_is_behind_says_so(page: Browser, site: ViewerSite) -> None:
    """Where nothing of what REST knows arrives over the WebSocket, the page says by how much it is behind."""
    with site.client.session("behind", stream="rig") as session, viewer_site.LiveWave(session, START_NS):
        show(page, site, session="behind", panes="1")
        wait_until(lambda: [line for line in lines(page) if line["count"] > 50], what="moving lines")
        page.run(HOLD_BACK)
        page.wait_for_text("#banner", "behind")
        assert re.match(r"\d+ s behind", page.text("#link"))
        page.run("globalThis.isHeldBack = false")
        wait_until(lambda: not page.text("#banner") and page.text("#link") == "live", what="the end of it")


def test_a_beginning_that_was_trimmed_is_told(page: Browser, site: ViewerSite) -> None:
    """A session whose first entries are gone from its stream says so, and shows the rest; one of which nothing is left
    says that, and a whole one nothing."""
    session = site.client.session("trimmed", stream="trimmed")
    with rta_writers.BurstWriter(session.options, unit="u") as writer:
        write_wave(writer, (1,), 500)
        write_wave(writer, (1,), 500, first=500)
        write_wave(writer, (1,), 2000, first=1000)
    closed_session(site, "whole")
    session.close()
    # Between bursts there may be time ranges, which are short.
    entries: Any = site.redis_client.xrange("stream:trimmed")
    bursts = [entry_id for entry_id, fields in entries if len(fields[b"data"]) > 1000]
    site.redis_client.xtrim("stream:trimmed", minid=bursts[1], approximate=False)
    show(page, site, session="trimmed", panes="1")
    page.wait_for_text("#plot-note", "Nothing is kept of the beginning")
    wait_for_samples(page, 2500)
    show(page, site, session="whole", panes="1")
    wait_for_samples(page, 3000)
    assert page.text("#plot-note") == ""
    with site.client.session("gone", stream="gone") as gone, rta_writers.BurstWriter(gone.options, unit="u") as writer:
        write_wave(writer, (1,), 500)
    site.redis_client.xtrim("stream:gone", maxlen=0, approximate=False)
    show(page, site, session="gone", panes="1")
    page.wait_for_text("#plot-note", "Nothing is kept of this session")


def test_gaps_are_gaps(page: Browser, site: ViewerSite) -> None:
    """Where samples are missing, the line ends and begins again."""
    with written_session(site, "gaps") as writer:
        write_wave(writer, (1,), 1000)
        write_wave(writer, (1,), 1000, first=2000)
    show(page, site, session="gaps", panes="1")
    [line] = wait_for_samples(page, 2000)
    distances = np.diff(line["times"])
    assert (distances > line["gap"]).sum() == 1
    assert distances.max() > 9.9 * NS_PER_S


def test_names_from_outside_are_only_texts(page: Browser, site: ViewerSite, tmp_path: Path) -> None:
    """Identity, name, details, unit, description, group, text of a value and event: markup in them is shown as it is,
    and nothing of it runs."""
    channel_file = tmp_path / "hostile.toml"
    channel_file.write_text(HOSTILE_CHANNELS)
    channels = rta_writers.Channels.load(channel_file)
    details = {HOSTILE: HOSTILE}
    with site.client.session(HOSTILE, stream="rig", identifier=HOSTILE, details=details, channels=channels) as session:
        with rta_writers.BurstWriter(session.options, unit="samples") as writer:
            writer.samples(np.repeat([1, 2], 10), np.tile(START_NS + np.arange(10) * NS_PER_S, 2), np.ones(20))
        with rta_writers.BurstWriter(session.options, unit="events") as writer:
            event = {"event_definition_id": pa.array([1], pa.int32()), "time": [START_NS + NS_PER_S]}
            texts = {"app_name": [HOSTILE], "status_text": [HOSTILE]}
            writer.write(pa.table({**event, **texts, "raw_data": pa.array([[]], pa.list_(pa.float64()))}))
    show(page, site)
    page.wait_for_text("#sessions", HOSTILE)
    show(page, site, session=HOSTILE)
    wait_for_samples(page, 10)
    assert page.text("#title") == HOSTILE
    for card in ("#json-card", "#events-card"):
        page.element(f"{card} summary").click()
    assert HOSTILE in page.text("#facts")
    page.wait_for_text("#events", HOSTILE)
    for selector in ("#tree label", "#values tbody"):
        assert HOSTILE in page.text(selector)
    assert page.text("#tree summary") == HOSTILE.replace("/", " / "), "groups within groups"
    assert HOSTILE in page.text("#values tbody tr:nth-child(2) .value"), "the text of a value"
    assert page.run("return window.hit ?? null") is None
    assert page.console_errors() == []


def test_channels_are_shown_as_people_named_them(page: Browser, site: ViewerSite) -> None:
    """With their units, groups and conversions, also those of 64-bit integers, which other viewers don't know."""
    texts = TextConversion((1.0,), ("first",))
    channels = model.build(
        [
            Channel(id=1, name="Öl °C", unit="°C", group=("Motor", "Öl"), min=0, max=150),
            Channel(id=2, name="gear", type=SampleType.INT64, group=("Motor",), conversion=texts),
            Channel(id=3, name="mode", type=SampleType.INT8, conversion=texts),
            Channel(id=4, name="fuel", type=SampleType.UINT64, conversion=RationalConversion((0, 0.5, 0, 0, 0, 1))),
        ]
    )
    with written_session(site, "named", channels=rta_writers.Channels(channels)) as writer:
        writer.samples([1, 2, 3, 4], [START_NS] * 4, [90.5, 1.0, 7.0, 3.0])
    show(page, site, session="named")
    wait_for_samples(page, 1)
    assert page.text("#tree").split("\n") == ["mode", "fuel", "Motor", "gear", "Motor / Öl", "Öl °C °C"]
    page.element("#tree input[value='4']").click()
    page.wait_for_text("#values tbody", "fuel\t1.5")
    for text in ("Öl °C\t90.5\t°C", "gear\tfirst", "mode\t7"):
        assert text in page.text("#values tbody")


def test_who_may_not_look_is_told(page: Browser, site: ViewerSite, tmp_path: Path) -> None:
    """Without a token the page says what to do; with one it shows what the token may see, and nothing else."""
    closed_session(site, "permitted")
    with site.client.session("forbidden", stream="other"):
        pass
    tokens = tmp_path / "tokens"
    tokens.write_text(f"rig {TOKEN} rig\n")
    tokens.chmod(0o600)
    with gateways.running(site.redis.url, {**site.environment, "RTA_GATEWAY__TOKEN_FILE": str(tokens)}) as gateway:
        page.driver.get(f"{gateway.address}/")
        assert "?token=" in page.text("body")
        page.driver.get(f"{gateway.address}/?token={TOKEN}")
        page.wait_for_text("#sessions", "permitted")
        assert "forbidden" not in page.text("#sessions")
        page.driver.get(f"{gateway.address}/#session=forbidden")
        page.wait_for_text("#banner", "no such session, or it may not be seen")
        tokens.write_text(f"rig {TOKEN[::-1]} rig\n")
        page.wait_for_text("#banner", "This needs a token")


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


def test_a_session_without_data_is_told(page: Browser, site: ViewerSite) -> None:
    """It says so, also where the address asks for more than there can be; its controls do no harm, and the first
    values stand in the table as soon as they are drawn."""
    session = site.client.session("empty", stream="rig")
    channels = ".".join(str(number) for number in range(1, 101))
    show(page, site, session="empty", panes=channels, span="1e300")
    page.wait_for_text("#plot-note", "There is no data yet")
    page.wait_for_text("#link", "live")
    assert len(page.elements("#values tbody tr")) == 24
    page.run("document.getElementById('panes').focus()")
    page.press(Keys.HOME, "+", Keys.PAGE_UP, Keys.END)
    page.run(NOTE_FIRST_VALUE)
    with rta_writers.BurstWriter(session.options, unit="u") as writer:
        write_wave(writer, range(1, 25), 10)
    first_value = wait_until(lambda: page.run("return globalThis.firstValue"), what="samples")
    assert re.search(r"\d", str(first_value))
    session.close()
    site.client.session("never", stream="rig").close()
    show(page, site, session="never", panes="1")
    page.wait_for_text("#plot-note", "No data of this session is known")
    assert not page.element("#replay").is_enabled()
    page.run("document.getElementById('panes').focus()")
    page.press(Keys.SPACE, Keys.HOME)
    assert page.text("#plot-note") == "No data of this session is known."
    assert page.console_errors() == []


NOTE_FIRST_VALUE = """
globalThis.firstValue = null;
const { picture } = viewer;
const paint = picture.paint.bind(picture);
picture.paint = () => {
  paint();
  const hasSamples = viewer.painted.lines.flat().some((line) => line.count);
  if (hasSamples) globalThis.firstValue ??= document.querySelector('#values .value').innerText;
};
"""
"""A script that notes what stands in the table when samples are drawn for the first time."""


def test_what_is_not_there_is_told(page: Browser, site: ViewerSite) -> None:
    """An unknown session, and one whose configuration nobody published."""
    show(page, site, session="nobody")
    page.wait_for_text("#banner", "no such session")
    bindings = [{"identifier": "unpublished", "channelOffset": 0}]
    with written_session(site, "unbound", configBindings=bindings) as writer:
        write_wave(writer, (7,), 10)
    show(page, site, session="unbound")
    page.wait_for_text("#banner", "by number")
    page.wait_for_text("#tree", "channel 7")


HOLD_BACK = """
globalThis.isHeldBack = true;
const { model } = viewer;
const receive = model.receive.bind(model);
model.receive = (message) => {
  if (isHeldBack && message.kind === 'drawn') viewer.picture.asked = false;
  if (!isHeldBack || !['range', 'drawn'].includes(message.kind)) receive(message);
};
"""
"""A script that keeps from the page what its worker has, as if the worker could not keep up."""

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
