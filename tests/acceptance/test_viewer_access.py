"""The viewer for everybody: by keyboard, by touch, with a screen reader, on a phone, in both colour schemes."""

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

import rta_writers
from rta_wire import errors
from tests.acceptance import browser as browsers
from tests.acceptance.browser import LOW_CONTRAST, Browser
from tests.acceptance.viewer_site import (
    NS_PER_S,
    RATE_HZ,
    START_NS,
    LiveWave,
    ViewerSite,
    closed_session,
    lines,
    show,
    wait_for_samples,
    write_event,
    write_wave,
)
from tests.support import npm
from tests.support.waiting import wait_until

pytestmark = browsers.needs_browser


def test_everything_can_be_done_with_the_keyboard(page: Browser, site: ViewerSite) -> None:
    """Search, choose a session and a channel, move the cursor, zoom, pan, whole session, replay: without a mouse."""
    closed_session(site, "keys")
    show(page, site)
    page.wait_for_text("#sessions", "keys")
    page.press("/")
    page.press("keys")
    wait_until(lambda: len(page.elements("#sessions tbody tr")) == 1, what="the filter")
    while not page.run("return document.activeElement.matches('#sessions a')"):
        page.press(Keys.TAB)
    page.press(Keys.ENTER)
    wait_for_samples(page, 3000)
    assert page.focused() == "title", "the focus follows"
    page.run("document.querySelector('.skip').focus()")
    page.press(Keys.ENTER)
    assert page.focused() == "main"
    assert page.text("#title") == "keys", "the view stays"
    page.press("/")
    page.press("channel 3")
    page.press(Keys.TAB)
    page.press(Keys.SPACE)
    wait_until(lambda: [line["channel"] for line in lines(page)] == [1, 2], what="a channel that was cleared")
    page.run("document.getElementById('panes').focus()")
    page.press(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    page.wait_for_text("#cursor-time", ":")
    before = float(str(page.run("return viewer.range.span")))
    page.press("+", "+")
    assert float(str(page.run("return viewer.range.span"))) < before / 2
    page.press(Keys.PAGE_UP)
    page.press(Keys.HOME)
    wait_for_samples(page, 3000)
    page.run("document.querySelector('#values .remove').focus()")
    page.press(Keys.ENTER)
    wait_until(lambda: [line["channel"] for line in lines(page)] == [2], what="a channel that was removed")
    assert page.focused() == "panes", "the focus stays near"
    page.press(Keys.SPACE)
    page.wait_for_text("#replay", "Pause")
    page.press(Keys.SPACE)
    page.wait_for_text("#replay", "Replay")
    paused = page.run("return viewer.range.at(performance.now(), false)[1]")
    page.press(Keys.SPACE)
    assert page.run("return viewer.range.replayEnd") == paused, "it goes on where it was"


class Fingers:
    """Fingers on the first plot, as the browser gets them from a touch screen."""

    STEPS = 10

    def __init__(self, page: Browser) -> None:
        self._page = page
        box: Any = page.run("return document.querySelector('.pane canvas').getBoundingClientRect().toJSON()")
        self._left, self._y = box["left"], box["top"] + box["height"] / 2

    def drag(self, *paths: tuple[float, float]) -> None:
        """Puts a finger at the beginning of each path, moves all to their ends, and lifts them."""
        for step in range(self.STEPS + 1):
            at = [start + (end - start) * step / self.STEPS for start, end in paths]
            self._send("touchMove" if step else "touchStart", at)
        self._send("touchEnd", [])

    def _send(self, kind: str, at: list[float]) -> None:
        points = [{"x": self._left + x, "y": self._y, "id": finger} for finger, x in enumerate(at)]
        self._page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def shown_s(self) -> float:
        return float(str(self._page.run("return viewer.range.span / 1e9")))

    def time_s(self, x: float) -> float:
        """The time at a place of the plot, in seconds since the beginning of the data."""
        return float(str(self._page.run("return (viewer.actions.timeAt(arguments[0]) - viewer.model.first) / 1e9", x)))


def test_fingers_zoom_and_move(page: Browser, site: ViewerSite) -> None:
    """Two fingers that part zoom in around their middle, one that moves pans, and a tap sets the cursor."""
    closed_session(site, "touched")
    show(page, site, session="touched", panes="1")
    wait_for_samples(page, 3000)
    fingers = Fingers(page)
    before_s, middle_s = fingers.shown_s(), fingers.time_s(525)
    fingers.drag((500, 400), (550, 650))
    zoomed_s = fingers.shown_s()
    assert zoomed_s == pytest.approx(before_s * 50 / 250, rel=0.05)
    assert fingers.time_s(525) == pytest.approx(middle_s, abs=zoomed_s * 0.05)
    under_finger_s = fingers.time_s(500)
    fingers.drag((500, 400))
    assert fingers.shown_s() == pytest.approx(zoomed_s)
    assert fingers.time_s(400) == pytest.approx(under_finger_s, abs=zoomed_s * 0.02)
    fingers.drag((500, 500), (550, 650))
    assert ":" not in page.text("#cursor-time"), "a finger that stays is no tap"
    fingers.drag((500, 500))
    assert re.search(r" \d\d:\d\d:\d\d", page.wait_for_text("#cursor-time", ":"))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_the_viewer_is_readable(page: Browser, site: ViewerSite, theme: str, width: int) -> None:
    """In both colour schemes and on a phone: contrast, no sideways scrolling, whole tables, a name for each control."""
    with contextlib.suppress(errors.SessionClosed):
        closed_session(site, "readable", details={"Rig": 4})
    page.emulate(width, 900, theme)
    for view in ({}, {"session": "readable", "panes": "1.2-3"}):
        show(page, site, **view)
        page.wait_for_text("#sessions" if not view else "#values", "readable" if not view else "channel 3")
        assert page.run(LOW_CONTRAST) == []
        assert page.run("return document.documentElement.scrollWidth <= innerWidth")
        assert page.run(CUT_OFF) == []
        assert page.run(UNNAMED) == []


def test_a_live_picture_moves_seldom_for_who_wants_less_motion(page: Browser, site: ViewerSite) -> None:
    """With reduced motion a picture that scrolls changes twice a second, and not with each frame."""
    features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    with site.client.session("calm", stream="rig") as session, LiveWave(session, START_NS) as live:
        show(page, site, session="calm", panes="1")
        wait_until(lambda: [line for line in lines(page) if line["count"] > 50], what="a moving line")
        page.run(COUNT_MOVES)
        count = live.count
        wait_until(lambda: live.count > count + 2 * RATE_HZ, what="two seconds")
        assert 1 < float(str(page.run("return ends.size / (performance.now() - countedMs) * 1000"))) < 4


COUNT_MOVES = """
globalThis.ends = new Set();
globalThis.countedMs = performance.now();
const { picture } = viewer;
const paint = picture.paint.bind(picture);
picture.paint = () => {
  paint();
  ends.add(picture.shown.end);
};
"""
"""A script that notes where the pictures end from now on."""


def test_a_checker_of_accessibility_finds_nothing_serious(page: Browser, site: ViewerSite, tmp_path: Path) -> None:
    """axe-core on the list, and on a session with all that can be opened."""
    script = (npm.install(tmp_path, "axe-core") / "axe.min.js").read_text()
    closed_session(site, "beside")
    with site.client.session("checked", stream="rig", details={"Rig": 4}) as session:
        with rta_writers.BurstWriter(session.options, unit="samples") as writer:
            write_wave(writer, (1, 2, 3), 3000)
        with rta_writers.BurstWriter(session.options, unit="events") as writer:
            for number in range(50):
                write_event(writer, START_NS + number * NS_PER_S // 2, "an event")
    for view in ({}, {"session": "checked", "panes": "1.2-3", "other": "beside"}):
        show(page, site, **view)
        page.wait_for_text("#values" if view else "#sessions", "channel 3, beside" if view else "checked")
        page.run("for (const details of document.querySelectorAll('details')) details.open = true")
        if view:
            page.wait_for_text("#events", "an event")
        page.run(script)
        violations: Any = page.driver.execute_async_script(AXE)
        assert violations == []


AXE = """
const done = arguments[0];
axe.run().then(({violations}) => done(violations.filter(({impact}) => ['serious', 'critical'].includes(impact))
  .map(({id, nodes}) => `${id}: ${nodes.map(({html}) => html.slice(0, 120)).join(' ')}`)));
"""
"""A script that gives what axe-core calls serious or critical."""


CUT_OFF = """
const tables = [...document.querySelectorAll('table')].filter((table) => table.checkVisibility())
  .filter((table) => table.getBoundingClientRect().right > table.parentElement.getBoundingClientRect().right);
const names = [...document.querySelectorAll('#values tbody th')].filter((name) => name.scrollWidth > name.clientWidth);
return [...tables.map((table) => table.id), ...names.map((name) => name.innerText)];
"""
"""A script that lists tables which are wider than their card, and names of channels that are cut off."""

UNNAMED = """
return [...document.querySelectorAll('button, select, input, a')].filter((control) => control.checkVisibility())
  .filter((control) => !(control.innerText || control.labels?.[0]?.innerText || control.getAttribute('aria-label')
    || control.title || control.querySelector?.('img[alt]'))).map((control) => control.outerHTML.slice(0, 100))
"""
"""A script that lists controls without a name."""
