"""The live page in a real browser, as an operator uses it."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest
import redis
from selenium.webdriver.common.keys import Keys

import rta_writers
from rta_supervisor.embedded import server
from rta_wire import errors
from rta_writers.connection import redis_client
from tests.acceptance import browser as browsers
from tests.acceptance.browser import Browser
from tests.support import supervisors
from tests.support.control import write
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(
    browsers.CHROMIUM is None or browsers.DRIVER is None,
    reason="needs Chromium and its driver: apt-get install chromium chromium-driver",
)

HOSTILE = "<img src=x onerror=window.hit=1><script>window.hit=2</script>"
SOON_S = 2.0

CONTRAST = """
const rgb = (text) => {
  const pen = new OffscreenCanvas(1, 1).getContext('2d');
  pen.fillStyle = text;
  pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data];
};
const luminance = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const background = (element) => {
  for (let ancestor = element; ancestor; ancestor = ancestor.parentElement) {
    const color = rgb(getComputedStyle(ancestor).backgroundColor);
    if (color[3] === 255) return color;
  }
  return [255, 255, 255];
};
const poor = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const element = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || !element.checkVisibility()) continue;
  if (element.closest('.unseen, .skip, noscript')) continue;
  const [a, b] = [luminance(rgb(getComputedStyle(element).color)), luminance(background(element))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${element.outerHTML.slice(0, 80)}`);
}
return poor;
"""
"""Script that lists the texts of the page whose contrast is below 4.5, as WCAG 2 measures it."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsers.running() as running:
        yield running


@pytest.fixture(scope="module")
def redis_server() -> Iterator[server.EmbeddedServer]:
    with server.running() as running:
        yield running


class Site:
    """A supervisor at one address, which can be ended and started again."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._port = server.free_port()
        self._stack = contextlib.ExitStack()
        self.address = f"http://127.0.0.1:{self._port}/ui"
        self.supervisor: Supervisor | None = None

    def start(self) -> None:
        environment = {"RTA_HTTP__PORT": str(self._port)}
        self.supervisor = self._stack.enter_context(supervisors.running(self._url, environment))

    def kill(self) -> None:
        assert self.supervisor is not None
        self.supervisor.kill()

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def site(redis_server: server.EmbeddedServer) -> Iterator[Site]:
    site = Site(redis_server.url)
    site.start()
    yield site
    site.close()


@pytest.fixture
def client(redis_server: server.EmbeddedServer) -> Iterator[redis.Redis]:
    with redis_client.connect(redis_server.url) as client:
        yield client


@pytest.fixture
def sessions(redis_server: server.EmbeddedServer, site: Site) -> rta_writers.SessionClient:  # noqa: ARG001 - it has to run
    return rta_writers.SessionClient(redis_server.url, timeout_s=30)


@pytest.fixture
def page(browser: Browser, site: Site) -> Browser:
    """The page, freshly loaded and connected."""
    browser.size(1280, 900)
    browser.driver.get("about:blank")
    browser.console_messages()
    browser.driver.get(site.address)
    browser.wait_for_text("#link", "live")
    return browser


def row(identity: str) -> str:
    """The selector of the row of a session."""
    return f"#sessions tr:has(a[title={quoted(identity)}])"


def quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def test_changes_show_soon(page: Browser, client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """A session that opens, its samples and its end show within two seconds of their being reported."""
    session = sessions.session("soon", stream="rig")
    opened_s = time.monotonic()
    page.wait_for_text(row("soon"), "open")
    took_s = {"open": time.monotonic() - opened_s}
    write(client, session, 7)
    wrote_s = time.monotonic()
    page.wait_for_text(row("soon"), "7")
    took_s["samples"] = time.monotonic() - wrote_s
    session.close()
    closed_s = time.monotonic()
    page.wait_for_text(row("soon"), "closed")
    took_s["closed"] = time.monotonic() - closed_s
    assert max(took_s.values()) < SOON_S + slack_s(), took_s
    assert page.console_messages() == []


def slack_s() -> float:
    """More time for a host that has more to do than processors."""
    return max(0.0, os.getloadavg()[0] / (os.cpu_count() or 1) - 1)


def test_hostile_names_do_nothing(page: Browser, client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """Markup in an identity, a unit and the JSON is shown as text and never becomes part of the page."""
    session = sessions.session(HOSTILE, stream="rig", identifier=HOSTILE, details={HOSTILE: HOSTILE})
    write(client, session, 3, unit=HOSTILE)
    page.wait_for_text("#sessions", HOSTILE)
    page.driver.get(page.driver.current_url + "#session=" + quote(HOSTILE))
    assert page.wait_for_text("#detail-title", HOSTILE) == HOSTILE
    page.wait_for_text("#writers", HOSTILE)
    page.wait_for_text("#detail-json", HOSTILE)
    page.wait_for_text("#events", HOSTILE)
    assert page.run("return window.hit") is None
    assert page.elements("main img, main script, td img, pre *") == []
    assert page.console_messages() == []


def test_the_keyboard_is_enough(page: Browser, sessions: rta_writers.SessionClient) -> None:
    """Skip link, filter, choice of a session, way back: focus is always where a person expects it."""
    for identity in ("key-a", "key-b"):
        sessions.session(identity, stream="rig")
    page.wait_for_text("#sessions", "key-b")
    page.press(Keys.TAB)
    assert page.focused() == "Skip to sessions"
    page.press(Keys.ENTER)
    assert page.focused() == "sessions-title"
    page.press("/")
    assert page.focused() == "filter"
    page.press(*"key-")
    wait_until(lambda: len(page.elements("#sessions tbody tr")) == 2, what="two rows")
    for _ in range(12):
        page.press(Keys.TAB)
        if page.focused().startswith("key-"):
            break
    first = page.focused()
    page.press(Keys.ARROW_DOWN)
    second = page.focused()
    assert {first, second} == {"key-a", "key-b"}
    page.press(Keys.ENTER)
    assert page.wait_for_text("#detail-title", second) == second
    assert page.focused() == "detail-title"
    assert page.element(f"{row(second)} a").get_attribute("aria-current") == "true"
    page.press(Keys.ESCAPE)
    assert page.focused() == second
    assert not page.element("#detail").is_displayed()


def test_channels_are_drawn(page: Browser, client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """The plot shows samples as they are added, and nothing when no channel is chosen."""
    session = sessions.session("plotted", stream="rig")
    write(client, session, 50)
    page.driver.get(page.driver.current_url + "#session=plotted")
    page.wait_for_text("#plot-values", "49")
    wait_until(lambda: coloured_points(page) > 0, what="a line in the plot")
    write(client, session, 60, unit="v")
    page.wait_for_text("#plot-values", "59")
    page.element("#chooser summary").click()
    page.element("#channels input").click()
    wait_until(lambda: not page.element("#plot").is_displayed(), what="no channel, no plot")


def coloured_points(page: Browser) -> int:
    """How many points of the plot are coloured."""
    count = page.run(
        "const c = document.getElementById('plot'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height)"
        ".data; let n = 0; for (let i = 0; i < d.length; i += 4) if (Math.abs(d[i] - d[i + 2]) > 60) n += 1; return n"
    )
    return int(str(count))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_it_is_readable(page: Browser, sessions: rta_writers.SessionClient, theme: str, width: int) -> None:
    """Every text has enough contrast, nothing is wider than the window, tables and inputs have labels."""
    for state in ("failed", "abandoned", "truncated", "closed"):
        with contextlib.suppress(errors.SessionClosed):
            sessions.session(f"ended {state}", stream="rig").close(state=state)
    page.size(width, 900, theme)
    page.wait_for_text("#sessions", "truncated")
    page.driver.get(page.driver.current_url + "#session=ended%20failed")
    page.wait_for_text("#detail-json", "failed")
    assert page.run(CONTRAST) == []
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    assert page.run("return [...document.querySelectorAll('table')].every((table) => table.caption)")
    assert page.run("return [...document.querySelectorAll('th')].every((cell) => cell.scope)")
    assert page.run(
        "return [...document.querySelectorAll('input, select')].every((input) => input.labels.length === 1)"
    )


def test_hundreds_of_sessions_stay_fast(
    page: Browser, redis_server: server.EmbeddedServer, sessions: rta_writers.SessionClient
) -> None:
    """300 live sessions are drawn in less than a tenth of a second, and no more rows than were asked for."""
    identities = [f"many-{number:03}" for number in range(300)]

    def open_sessions(part: list[str]) -> None:
        thread_client = rta_writers.SessionClient(redis_server.url, timeout_s=60)
        for identity in part:
            thread_client.session(identity, stream="many")

    threads = [threading.Thread(target=open_sessions, args=(identities[number::3],)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    page.wait_for_text("#tile-live", "3")
    wait_until(lambda: not page.element("#more").get_attribute("hidden"), what="more than is shown")
    assert len(page.elements("#sessions tbody tr")) == 100
    page.element("#more").click()
    wait_until(lambda: len(page.elements("#sessions tbody tr")) >= 300, what="all of them")
    page.run("document.getElementById('filter').value = 'many-29'")
    page.run("document.getElementById('filter').dispatchEvent(new Event('input'))")
    assert len(page.elements("#sessions tbody tr")) == 10
    page.run("document.getElementById('filter').value = ''")
    took_ms = page.run(
        "const began = performance.now(); for (let n = 0; n < 5; n += 1)"
        " document.getElementById('filter').dispatchEvent(new Event('input')); return (performance.now() - began) / 5"
    )
    assert float(str(took_ms)) < 100 * (1 + slack_s())
    for identity in identities[:5]:
        sessions.close(identity)


def test_an_outage_of_redis_shows_a_banner(page: Browser, redis_server: server.EmbeddedServer) -> None:
    """The banner names Redis, the rows stay, and the banner goes when Redis answers again."""
    rows = len(page.elements("#sessions tbody tr"))
    os.kill(redis_server.pid, signal.SIGSTOP)
    try:
        assert "Redis" in page.wait_for_text("#banner", "Redis")
        assert page.element("#banner").get_attribute("role") == "alert"
        assert len(page.elements("#sessions tbody tr")) == rows
    finally:
        os.kill(redis_server.pid, signal.SIGCONT)
    wait_until(lambda: not page.element("#banner").is_displayed(), what="the banner going away")


def test_it_survives_a_restart_of_the_supervisor(
    page: Browser, site: Site, sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """A supervisor is killed and started again: a banner in between, then updates as before, without a reload."""
    page.run("window.same = 1")
    session = sessions.session("survivor", stream="rig")
    page.wait_for_text("#sessions", "survivor")
    site.kill()
    page.wait_for_text("#banner", "does not answer")
    assert "survivor" in page.text("#sessions")
    site.start()
    wait_until(lambda: not page.element("#banner").is_displayed(), timeout_s=30, what="the banner going away")
    write(client, session, 11)
    page.wait_for_text(row("survivor"), "11")
    assert page.run("return window.same") == 1
