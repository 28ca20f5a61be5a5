"""A headless Chromium with its driver, both as Debian installs them. Nothing is downloaded."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.support.waiting import wait_until

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="needs Chromium and its driver: apt-get install chromium chromium-driver",
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)

LOW_CONTRAST = """
const rgb = (colour) => {
  const pen = new OffscreenCanvas(1, 1).getContext('2d');
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data];
};
const luminance = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const background = (element) => {
  for (let ancestor = element; ancestor; ancestor = ancestor.parentElement) {
    const colour = rgb(getComputedStyle(ancestor).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return [255, 255, 255];
};
const elements = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const element = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || !element.checkVisibility()) continue;
  if (element.closest('.unseen, .skip, noscript')) continue;
  const [a, b] = [luminance(rgb(getComputedStyle(element).color)), luminance(background(element))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) elements.push(`${ratio.toFixed(2)} ${element.outerHTML.slice(0, 80)}`);
}
return elements;
"""
"""A script that lists texts whose contrast with their background is below 4.5, the limit of WCAG AA."""


class Browser:
    """One window of the browser."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def element(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def elements(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def run(self, script: str, *arguments: object) -> object:
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        """The text of an element, empty where there is none. Read by one script: the page may replace the element."""
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def wait_for_text(self, selector: str, part: str, *, timeout_s: float = 20) -> str:
        """Waits until the text of an element contains a part, and gives the whole text."""

        def matching_text() -> str:
            text = self.text(selector)
            return text if part in text else ""

        return wait_until(matching_text, timeout_s=timeout_s, what=f"{part!r} in {selector}")

    def press(self, *keys: str) -> None:
        """Presses keys, which go to the element that has the focus."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def focused(self) -> str:
        """The id of the element that has the focus, else its text, else its tag."""
        script = "const focused = document.activeElement; return focused.id || focused.innerText || focused.tagName"
        return str(self.run(script))

    def emulate(self, width: int, height: int, theme: str = "light") -> None:
        """Sets the size of the window and the colour scheme that the user prefers."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", features)

    def console_errors(self) -> list[str]:
        """Messages of the browser's console since the last call: failed scripts, violations of the content policy."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def running() -> Iterator[Browser]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(prefix="rtas-browser-", ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        try:
            yield Browser(driver)
        finally:
            driver.quit()
