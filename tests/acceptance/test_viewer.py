"""The viewer in a real browser, on a real gateway: what it shows is what stands in Redis."""

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
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
    show,
    wait_for_samples,
    wave,
    write_event,
    write_wave,
    written_session,
    zoom,
)
from tests.support.waiting import wait_until

pytestmark = browsers.needs_browser

HOSTILE = "<img src=x onerror=window.hit=1><script>window.hit=2</script>"


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
            write_event(writer, START_NS + NS_PER_S, HOSTILE, HOSTILE)
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


def test_samples_that_are_no_numbers_count_for_nothing(page: Browser, site: ViewerSite) -> None:
    """They are gaps, and the mean is that of the others, live and as history."""
    session = site.client.session("holes", stream="rig")
    times = START_NS + np.arange(100, dtype=np.int64) * (NS_PER_S // RATE_HZ)
    values = np.tile([np.nan, 10.0, np.inf, 20.0], 25)
    show(page, site, session="holes", panes="1")
    page.wait_for_text("#link", "live")
    with rta_writers.BurstWriter(session.options, unit="u") as writer:
        writer.samples(np.ones(100, int), times, values)
    for _ in range(2):
        wait_for_samples(page, 100)
        zoom(page, 0, 1)
        wait_until(lambda: lines(page)[0]["lows"][:4] == [None, 10, None, 20], what="gaps between the others")
        page.wait_for_text("#values .mean", "15")
        session.close()
        page.driver.refresh()


def test_times_and_numbers_of_a_session_are_exact(page: Browser, site: ViewerSite) -> None:
    """Nanoseconds have more digits than a number of JavaScript: the JSON shows all of them, and the last sample is
    within the picture."""
    start_ns = START_NS + 45_678_123
    with written_session(site, "exact", details={"Serial": 1234567890123456789}) as writer:
        write_wave(writer, (1,), 100, start_ns=start_ns)
    show(page, site, session="exact", panes="1", span="10")
    [line] = wait_for_samples(page, 100)
    assert line["lasts"][-1] == wave(1, 100)[-1]
    page.element("#json-card summary").click()
    assert f'"endTime": {start_ns + 99 * NS_PER_S // RATE_HZ}' in page.text("#session-json")
    assert "1234567890123456789" in page.text("#facts")


def test_all_channels_are_found_without_a_configuration(page: Browser, site: ViewerSite) -> None:
    """Also those that have no samples at the end of a session, and those that begin while somebody looks."""
    with written_session(site, "unlisted") as writer:
        write_wave(writer, (5,), 10)
        write_wave(writer, (6,), 10, first=6000)
        show(page, site, session="unlisted")
        page.wait_for_text("#tree", "channel 5")
        assert page.text("#tree").split("\n") == ["channel 5", "channel 6"]
        write_wave(writer, (7,), 10, first=7000)
        page.wait_for_text("#tree", "channel 7")


def test_events_come_live_where_no_channel_is_known(page: Browser, site: ViewerSite) -> None:
    """Events alone are shown as they happen, and their history is asked for once."""
    asked = event_requests(site)
    with site.client.session("events alone", stream="rig") as session:
        show(page, site, session="events alone")
        page.wait_for_text("#link", "live")
        with rta_writers.BurstWriter(session.options, unit="events") as writer:
            for number in range(8):
                write_event(writer, START_NS + number * NS_PER_S, f"event {number}")
                page.wait_for_text("#events-count", f"({number + 1})")
    assert event_requests(site) - asked < 4


def event_requests(site: ViewerSite) -> int:
    """How often events were asked for."""
    count = re.search(r'rta_gateway_requests_total{endpoint="events",status="200"} (\d+)', site.gateway.metrics())
    return int(count[1]) if count else 0


def test_ticks_of_an_axis_can_be_told_apart(page: Browser, site: ViewerSite) -> None:
    """Also those of large values that hardly differ, and of values that no axis can have at its ends."""
    show(page, site)
    ranges = ((1234560, 1234570), (0.5, 0.500003), (-2e6, 5e6), (0, 1.797e308), (-1.797e308, 1.797e308), (1e-9, 4e-9))
    script = """const [ranges, done] = arguments;
    import('/static/axes.js').then(({valueAxis}) => done(
      ranges.map(([low, high]) => valueAxis(low, high, 6).ticks.map(({text}) => text))));"""
    axes: Any = page.driver.execute_async_script(script, ranges)
    for (low, high), ticks in zip(ranges, axes, strict=True):
        assert len(ticks) == len(set(ticks)) > 2
        numbers = [float(tick) for tick in ticks]
        assert numbers == sorted(numbers)
        assert numbers[0] <= low or low < -1e307
        assert numbers[-1] >= high or high > 1e307
    assert axes[0][:2] == ["1234560", "1234562"]


def test_days_are_told(page: Browser, site: ViewerSite) -> None:
    """A session of two days has the day at its midnights, at both ends of the scrubber and at the cursor."""
    with written_session(site, "days") as writer:
        writer.samples(np.ones(48, int), START_NS + np.arange(48) * 3600 * NS_PER_S, np.arange(48.0))
    page.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
    show(page, site, session="days", panes="1")
    wait_for_samples(page, 48)
    assert page.text("#scrub-start") == "2026-09-21 14:13:20"
    assert page.text("#scrub-end") == "2026-09-23 13:13:20"
    page.run("document.getElementById('panes').focus()")
    page.press(Keys.ARROW_LEFT)
    page.wait_for_text("#cursor-time", "2026-09-23 ")
    script = """const [done] = arguments;
    import('/static/axes.js').then(({timeTicks}) => done(
      timeTicks(0, 48 * 3600e9, 10, 1790000000000000000n).map(({text}) => text)));"""
    ticks: Any = page.driver.execute_async_script(script)
    assert ticks == ["18:00", "2026-09-22", "06:00", "12:00", "18:00", "2026-09-23", "06:00", "12:00"]


def test_many_events_are_few_marks(page: Browser, site: ViewerSite) -> None:
    """A picture has one mark for each of its steps and the last 200 texts. Where the page had to let go of the first
    events it says so."""
    show(page, site)
    script = """const [done] = arguments;
    import('/static/event_store.js').then(({EventStore}) => {
      const store = new EventStore();
      for (const round of [1, 2]) for (let n = 0; n < 20010; n++) store.add({time: n * 10, id: 1, text: `${n}`});
      done([store.between(0, 1e6, 500), store.between(200090, 200090, 10)].map(({marks, listed, count, isCut}) =>
        [marks.length, listed.length, listed.at(-1).text, count, isCut]));
    });"""
    pictures: Any = page.driver.execute_async_script(script)
    assert pictures == [[101, 200, "20009", 20000, True], [1, 1, "20009", 1, True]]
