"""The live page in a real browser."""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import redis
from selenium.webdriver.common.keys import Keys

import rta_writers
from rta_supervisor.embedded import server
from rta_wire import errors
from rta_writers.connection import redis_client
from tests.acceptance import browser as browsers
from tests.acceptance.browser import LOW_CONTRAST, Browser
from tests.support import supervisors
from tests.support.control import write
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until

pytestmark = browsers.needs_browser

HOSTILE_NAME = "<img src=x onerror=window.hit=1><script>window.hit=2</script>"
UPDATE_MAX_S = 2.0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsers.running() as running:
        yield running


@pytest.fixture(scope="module")
def redis_server() -> Iterator[server.EmbeddedServer]:
    with server.running() as running:
        yield running


class LivePageServer:
    """A supervisor that serves the live page on one port, and can be killed and started again."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._port = server.free_port()
        self.gateway_port = server.free_port()
        """Where its supervisor looks for a gateway."""
        self._stack = contextlib.ExitStack()
        self.address = f"http://127.0.0.1:{self._port}/ui"
        self.supervisor: Supervisor | None = None

    def start(self) -> None:
        environment = {"RTA_HTTP__PORT": str(self._port), "RTA_GATEWAY__PORT": str(self.gateway_port)}
        self.supervisor = self._stack.enter_context(supervisors.running(self._url, environment))

    def kill(self) -> None:
        assert self.supervisor is not None
        self.supervisor.kill()

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def page_server(redis_server: server.EmbeddedServer) -> Iterator[LivePageServer]:
    page_server = LivePageServer(redis_server.url)
    page_server.start()
    yield page_server
    page_server.close()


@pytest.fixture
def client(redis_server: server.EmbeddedServer) -> Iterator[redis.Redis]:
    with redis_client.connect(redis_server.url) as client:
        yield client


@pytest.fixture
def sessions(redis_server: server.EmbeddedServer, page_server: LivePageServer) -> rta_writers.SessionClient:  # noqa: ARG001 - it has to run
    return rta_writers.SessionClient(redis_server.url, timeout_s=30)


@pytest.fixture
def page(browser: Browser, page_server: LivePageServer) -> Browser:
    """The live page, loaded anew and connected to the supervisor."""
    browser.emulate(1280, 900)
    browser.driver.get("about:blank")
    browser.console_errors()
    browser.driver.get(page_server.address)
    browser.wait_for_text("#link", "live")
    return browser


def row(identity: str) -> str:
    """The selector of a session's row in the table."""
    title = identity.replace('"', '\\"')
    return f'#sessions tr:has(a[title="{title}"])'


def test_changes_appear_within_two_seconds(
    page: Browser, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """An opened session, its samples and its end are on the page within two seconds of the call."""
    session = sessions.session("soon", stream="rig")
    opened_s = time.monotonic()
    page.wait_for_text(row("soon"), "open")
    elapsed_s = {"open": time.monotonic() - opened_s}
    write(client, session, 7)
    wrote_s = time.monotonic()
    page.wait_for_text(row("soon"), "7")
    elapsed_s["samples"] = time.monotonic() - wrote_s
    session.close()
    closed_s = time.monotonic()
    page.wait_for_text(row("soon"), "closed")
    elapsed_s["closed"] = time.monotonic() - closed_s
    assert max(elapsed_s.values()) < UPDATE_MAX_S + load_slack_s(), elapsed_s
    assert page.console_errors() == []


def load_slack_s() -> float:
    """Seconds to add to a limit on a host that has more to do than its processors can."""
    return max(0.0, os.getloadavg()[0] / (os.cpu_count() or 1) - 1)


def test_hostile_names_do_nothing(page: Browser, client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """Markup in an identity, a unit and Session JSON is shown as text and never becomes an element."""
    session = sessions.session(
        HOSTILE_NAME, stream="rig", identifier=HOSTILE_NAME, details={HOSTILE_NAME: HOSTILE_NAME}
    )
    write(client, session, 3, unit=HOSTILE_NAME)
    page.wait_for_text("#sessions", HOSTILE_NAME)
    page.driver.get(page.driver.current_url + "#session=" + quote(HOSTILE_NAME))
    assert page.wait_for_text("#detail-title", HOSTILE_NAME) == HOSTILE_NAME
    page.wait_for_text("#writers", HOSTILE_NAME)
    page.wait_for_text("#detail-json", HOSTILE_NAME)
    page.wait_for_text("#events", HOSTILE_NAME)
    assert page.run("return window.hit") is None
    assert page.elements("main img, main script, td img, pre *") == []
    assert page.console_errors() == []


def test_the_keyboard_is_enough(page: Browser, sessions: rta_writers.SessionClient) -> None:
    """Skip link, filter, choosing a session and going back work by keys alone, and the focus follows."""
    for name in ("key-a", "key-b"):
        sessions.session(name, stream="rig")
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


def test_the_viewer_is_linked_to_where_there_is_one(
    page: Browser, page_server: LivePageServer, sessions: rta_writers.SessionClient
) -> None:
    """A session says that no gateway runs here, and has a link once one does. From elsewhere, one that listens on the
    loopback address is no use."""
    sessions.session("linked", stream="rig")
    page.wait_for_text("#sessions", "linked")
    page.element(f"{row('linked')} a").click()
    page.wait_for_text("#viewer-note", "No gateway runs on this host")
    assert not page.element("#viewer-link").is_displayed()
    page.press(Keys.ESCAPE)
    with socket.create_server(("127.0.0.1", page_server.gateway_port)):
        page.element(f"{row('linked')} a").click()
        wait_until(page.element("#viewer-link").is_displayed, what="the link")
    link = f"http://127.0.0.1:{page_server.gateway_port}/#session=linked"
    assert page.element("#viewer-link").get_attribute("href") == link
    assert page.text("#viewer-note") == ""
    addresses: Any = page.driver.execute_async_script(VIEWER_ADDRESSES)
    assert addresses == [None, "http://rig:1/", "http://[::1]:1/", "https://viewer/"]


VIEWER_ADDRESSES = """
const [done] = arguments;
import('/ui/static/viewer_address.js').then(({viewerAddress}) => done([
  [{scheme: 'http', port: 1, isLocal: true}, 'rig'], [{scheme: 'http', port: 1, isLocal: false}, 'rig'],
  [{scheme: 'http', port: 1, isLocal: true}, '[::1]'], [{url: 'https://viewer/'}, 'rig'],
].map((args) => viewerAddress(...args).base)));
"""
"""A script: where browsers on this host and on another one find the viewer."""


def test_sessions_have_the_names_that_people_gave_them(page: Browser, sessions: rta_writers.SessionClient) -> None:
    """The list shows what people call a session beside its identity."""
    sessions.session("named", stream="rig", identifier="Run 17")
    page.wait_for_text(row("named"), "Run 17")


def test_a_source_is_one_stream(page: Browser, client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """Its days are one line. Chosen, it shows the sessions of all of them, and no others."""
    for number, day in enumerate(("20260105", "20260106")):
        session = sessions.session(f"of-{day}", stream=f"rocket.{day}")
        write(client, session, 10 * (number + 1))
        client.zadd("rtas:days:rocket", {f"rocket.{day}": number})
        client.expire("rtas:days:rocket", 600)
    sessions.session("elsewhere", stream="rockets")
    page.wait_for_text("#streams", "rocket")
    page.wait_for_text("#sessions", "elsewhere")
    wait_until(lambda: page.elements('#streams a[href="#stream=rocket"]'), what="one line for the source")
    page.element('#streams a[href="#stream=rocket"]').click()
    page.wait_for_text("#detail-title", "rocket")
    page.wait_for_text("#detail-facts", "2, rocket.20260105 to rocket.20260106")
    listed = page.text("#sessions tbody")
    assert "of-20260105" in listed
    assert "of-20260106" in listed
    assert "elsewhere" not in listed
    assert not page.element("#detail-json").is_displayed()
    page.press(Keys.ESCAPE)
    page.wait_for_text("#sessions", "elsewhere")
    page.driver.get(page.driver.current_url.split("#")[0] + "#stream=nowhere")
    page.wait_for_text("#detail-problem", "no such source")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_is_readable(page: Browser, sessions: rta_writers.SessionClient, theme: str, width: int) -> None:
    """In both colour schemes and on a phone: contrast, no sideways scrolling, captions and labels."""
    for state in ("failed", "abandoned", "truncated", "closed"):
        with contextlib.suppress(errors.SessionClosed):
            sessions.session(f"ended {state}", stream="rig").close(state=state)
    page.emulate(width, 900, theme)
    page.wait_for_text("#sessions", "truncated")
    page.driver.get(page.driver.current_url + "#session=ended%20failed")
    page.wait_for_text("#detail-json", "failed")
    assert page.run(LOW_CONTRAST) == []
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    assert page.run("return [...document.querySelectorAll('table')].every((table) => table.caption)")
    assert page.run("return [...document.querySelectorAll('th')].every((cell) => cell.scope)")
    assert page.run(
        "return [...document.querySelectorAll('input, select')].every((input) => input.labels.length === 1)"
    )


def test_hundreds_of_sessions_stay_fast(
    page: Browser, redis_server: server.EmbeddedServer, sessions: rta_writers.SessionClient
) -> None:
    """A table of 300 sessions is drawn in less than 0.1 s, and has 100 rows until the user asks for all."""
    identities = [f"many-{number:03}" for number in range(300)]

    def open_sessions(part: list[str]) -> None:
        thread_client = rta_writers.SessionClient(redis_server.url, timeout_s=60)
        for identity in part:
            thread_client.session(identity, stream="many")

    threads = [threading.Thread(target=open_sessions, args=(identities[start::3],)) for start in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    page.wait_for_text("#tile-live", "3")
    wait_until(lambda: not page.element("#more").get_attribute("hidden"), what="the button for more rows")
    assert len(page.elements("#sessions tbody tr")) == 100
    page.element("#more").click()
    wait_until(lambda: len(page.elements("#sessions tbody tr")) >= 300, what="all rows")
    page.run("document.getElementById('filter').value = 'many-29'")
    page.run("document.getElementById('filter').dispatchEvent(new Event('input'))")
    assert len(page.elements("#sessions tbody tr")) == 10
    page.run("document.getElementById('filter').value = ''")
    draw_ms = page.run(
        "const began = performance.now(); for (let n = 0; n < 5; n += 1)"
        " document.getElementById('filter').dispatchEvent(new Event('input')); return (performance.now() - began) / 5"
    )
    assert float(str(draw_ms)) < 100 * (1 + load_slack_s())
    for identity in identities[:5]:
        sessions.close(identity)


def test_an_outage_of_redis_shows_a_banner(page: Browser, redis_server: server.EmbeddedServer) -> None:
    """The table keeps its rows during the outage, and the banner disappears when Redis answers again."""
    rows = len(page.elements("#sessions tbody tr"))
    os.kill(redis_server.pid, signal.SIGSTOP)
    try:
        assert "Redis" in page.wait_for_text("#banner", "Redis")
        assert page.element("#banner").get_attribute("role") == "alert"
        assert len(page.elements("#sessions tbody tr")) == rows
    finally:
        os.kill(redis_server.pid, signal.SIGCONT)
    wait_until(lambda: not page.element("#banner").is_displayed(), what="the banner going away")


def test_the_page_continues_after_a_restart_of_the_supervisor(
    page: Browser, page_server: LivePageServer, sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """A banner while the supervisor is away; afterwards updates arrive again without a reload of the page."""
    page.run("window.same = 1")
    session = sessions.session("survivor", stream="rig")
    page.wait_for_text("#sessions", "survivor")
    page_server.kill()
    page.wait_for_text("#banner", "does not answer")
    assert "survivor" in page.text("#sessions")
    page_server.start()
    wait_until(lambda: not page.element("#banner").is_displayed(), timeout_s=30, what="the banner going away")
    write(client, session, 11)
    page.wait_for_text(row("survivor"), "11")
    assert page.run("return window.same") == 1
