"""What the viewer says of sessions and connections is true: what is not there, not permitted, or does not answer."""

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

from selenium.webdriver.common.keys import Keys

import rta_writers
from rta_wire.channels import model
from rta_wire.channels.model import Channel
from tests.acceptance import browser as browsers
from tests.acceptance import viewer_site
from tests.acceptance.browser import Browser
from tests.acceptance.viewer_site import (
    NS_PER_S,
    START_NS,
    ViewerSite,
    closed_session,
    lines,
    show,
    wait_for_samples,
    write_wave,
    written_session,
    zoom,
)
from tests.support import gateways
from tests.support.waiting import wait_until

pytestmark = browsers.needs_browser

TOKEN = "0123456789abcdef-viewer"  # noqa: S105 - of this test


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


def test_a_session_that_ends_while_the_gateway_is_away_is_whole(page: Browser, site: ViewerSite) -> None:
    """Redis may have forgotten it by then: the page has its end and what it missed from REST. That of the session
    beside it is told too."""
    past_ns = time.time_ns() // NS_PER_S * NS_PER_S - 60 * NS_PER_S
    beside = site.client.session("beside", stream="rig")
    with written_session(site, "forgotten") as writer:
        write_wave(writer, (1,), 1000, start_ns=past_ns)
        show(page, site, session="forgotten", panes="1", other="beside")
        wait_until(lambda: [line for line in lines(page) if line["count"] == 1000], what="what was there")
        page.wait_for_text("#other-note", "beside (open)")
        site.kill_gateway()
        page.wait_for_text("#banner", "The connection is lost")
        page.wait_for_text("#other-note", "connection lost")
        write_wave(writer, (1,), 1000, first=1000, start_ns=past_ns)
    site.redis_client.delete("sessions:forgotten")
    site.restart_gateway()
    page.wait_for_text("#link", "ended")
    page.wait_for_text("#subtitle", "closed")
    page.wait_for_text("#other-note", "beside (open), dashed")
    page.run("viewer.actions.whole()")
    wait_for_samples(page, 2000)
    beside.close()


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
        open_session = site.client.session("watched", stream="rig")
        page.driver.get(f"{gateway.address}/#session=watched")
        page.wait_for_text("#link", "live")
        tokens.write_text(f"rig {TOKEN[::-1]} rig\n")
        page.wait_for_text("#banner", "This needs a token: open the address with ?token=… once. What you see is")
        open_session.close()
        page.element(".home").click()
        page.wait_for_text("#link", "not shown")
        assert "once. What you see is" in page.wait_for_text("#banner", "This needs a token"), "how old the list is"


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
    assert page.text("#link") == "not shown"
    assert not page.element("#replay").is_displayed(), "nothing to control"
    bindings = [{"identifier": "unpublished", "channelOffset": 0}]
    with written_session(site, "unbound", configBindings=bindings) as writer:
        write_wave(writer, (7,), 10)
    show(page, site, session="unbound")
    page.wait_for_text("#banner", "by number")
    page.wait_for_text("#tree", "channel 7")


def test_a_configuration_that_does_not_come_is_asked_for_again(page: Browser, site: ViewerSite) -> None:
    """Until it is there the page says what is wrong, and then it has the names."""
    channels = rta_writers.Channels(model.build([Channel(id=1, name="speed", unit="km/h")]))
    with written_session(site, "named later", channels=channels) as writer:
        write_wave(writer, (1,), 10)
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/configs/*"]})
    show(page, site, session="named later")
    page.wait_for_text("#banner", "The gateway does not answer. Trying again.")
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    page.wait_for_text("#tree", "speed")
    assert page.text("#banner") == ""


def test_an_address_of_a_time_that_cannot_be_does_no_harm(page: Browser, site: ViewerSite) -> None:
    """The page goes on: whoever sends a link can't stop a browser with it."""
    closed_session(site, "linked", 10)
    for start in (-9_999_999_999_999_999_999, -(2**63), 2**63 - 2000):
        show(page, site, session="linked", panes="1", **{"from": str(start), "to": str(start + 1999)})
        page.wait_for_text("#subtitle", "linked")
        page.run("viewer.actions.whole()")
        wait_for_samples(page, 10)


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
