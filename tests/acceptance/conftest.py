"""A deployment and a browser for the tests of the viewer, and a page for each of them."""

from collections.abc import Iterator

import pytest

from tests.acceptance import browser as browsers
from tests.acceptance import viewer_site
from tests.acceptance.browser import Browser
from tests.acceptance.viewer_site import ViewerSite


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsers.running() as running:
        yield running


@pytest.fixture(scope="module")
def site() -> Iterator[ViewerSite]:
    with viewer_site.running() as running:
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    browser.emulate(1280, 900)
    browser.driver.get("about:blank")
    browser.console_errors()
    yield browser
    browser.driver.get("about:blank")
