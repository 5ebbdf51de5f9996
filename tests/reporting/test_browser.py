"""The card in a real browser: it opens from disk, asks no network for anything, and does what it offers."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless Chromium with an empty profile."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    chromedriver = shutil.which("chromedriver")
    if browser is None or chromedriver is None:
        pytest.skip("skipped: no browser found (install chromium and chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver", reason="skipped: selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    profile = tmp_path_factory.mktemp("profile")
    for flag in (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
        f"--user-data-dir={profile}", "--window-size=1200,900",
    ):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture
def card(driver: Any, written: Path) -> Iterator[Any]:
    """The card of the model "tiny", open; closes on a page with errors or requests of any kind."""
    for log in ("browser", "performance"):
        driver.get_log(log)
    driver.get((written / "tiny.html").as_uri())
    driver.execute_script("localStorage.clear()")
    yield driver
    until(
        lambda: not driver.execute_script("return document.querySelectorAll('[data-chart]:not([data-drawn])').length")
    )
    faults = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not faults
    assert driver.execute_script("return window.harmed") is None
    assert not outside(driver)


def until(condition: Callable[[], Any], seconds: float = 30) -> Any:
    """Wait for something on the page."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError("the page did not get there in time")


def outside(driver: Any) -> list[str]:
    """Every address that a page on disk asked for and that is not on disk."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    from_disk = [entry["request"]["url"] for entry in asked if entry["documentURL"].startswith("file:")]
    return [url for url in from_disk if not url.startswith(("file:", "data:", "blob:"))]


def open_fold(driver: Any, key: str) -> Any:
    """Unfold the details that hold an element with this data attribute, by keyboard; return the element."""
    holder = driver.find_element("css selector", key)
    summary = driver.execute_script("return arguments[0].closest('details').querySelector('summary')", holder)
    summary.send_keys("\ue007")  # Enter
    until(lambda: holder.get_attribute("data-built"))
    return holder


def column(holder: Any, index: int) -> list[str]:
    cells = holder.find_elements("css selector", f"tbody td:nth-child({index})")
    return [cell.text for cell in cells]


def test_card_opens_from_disk_and_draws_its_figures(card: Any) -> None:
    assert "tiny" in card.title
    drawn = until(lambda: card.find_elements("css selector", ".draw svg.marks, .draw svg"))
    assert drawn
    assert "could not be drawn" not in card.find_element("css selector", ".draw").text


def test_table_sorts_by_keyboard_and_says_so_to_a_screen_reader(card: Any) -> None:
    holder = open_fold(card, "[data-table='table-personas-share']")
    button = holder.find_elements("css selector", "thead button")[1]  # value; numbers start with the largest
    button.send_keys("\ue007")
    head = holder.find_elements("css selector", "thead th")
    assert [cell.get_attribute("aria-sort") for cell in head] == ["none", "descending", "none"]
    values = [float(text) for text in column(holder, 2) if text]
    assert len(values) > 10 and values == sorted(values, reverse=True)
    button.send_keys("\ue007")
    assert head[1].get_attribute("aria-sort") == "ascending"
    values = [float(text) for text in column(holder, 2) if text]
    assert values == sorted(values)


def test_table_search_keeps_matching_rows_and_counts_them(card: Any) -> None:
    holder = open_fold(card, "[data-table='table-personas-share']")
    holder.find_element("css selector", "input[type=search]").send_keys("WOMAN")
    assert set(column(holder, 1)) == {"woman"}
    assert holder.find_element("css selector", "[role=status]").text == "20 of 60 rows"


def test_examples_stay_folded_until_opened_and_are_text(card: Any) -> None:
    assert not card.find_elements("css selector", ".example")
    holder = open_fold(card, "[data-examples]")
    quotes = [element.text for element in holder.find_elements("css selector", "blockquote")]
    assert quotes and all("</script><script>window.harmed = true</script>" in quote for quote in quotes)
    assert not holder.find_elements("css selector", "blockquote img, blockquote script")
    # "strong" is a marked word of every group of this study, "person" is none.
    assert {element.text for element in holder.find_elements("css selector", "blockquote mark")} == {"strong"}


def test_answer_links_to_its_texts_and_opens_them(card: Any) -> None:
    fold = card.find_element("id", "texts-personas")
    assert fold.get_attribute("open") is None
    card.find_element("css selector", "#answers a[href='#texts-personas']").send_keys("\ue007")
    until(lambda: fold.get_attribute("open") and fold.find_elements("css selector", "blockquote"))
    said = fold.find_element("css selector", "p").text
    assert said.startswith(
        "Sorted by how loud they are. The first of each group are extremes, not typical; the last is"
    )
    notes = [element.text for element in fold.find_elements("css selector", ".example > div:last-child")]
    assert notes == ["9 words", "8 words", "7 words", "5 words; from the middle of the order"]


def test_word_opens_its_texts_by_keyboard_and_closes_them(card: Any) -> None:
    button = card.find_element("css selector", "button[data-word]")
    assert button.text == "strong" and button.get_attribute("aria-expanded") == "false"
    button.send_keys("\ue007")
    context = card.find_element("css selector", ".context")
    quotes = [quote.text for quote in context.find_elements("css selector", "blockquote")]
    assert len(quotes) == 2 and "window.harmed" in quotes[0]
    assert [element.text for element in context.find_elements("css selector", "mark")] == ["strong"] * 2
    assert not context.find_elements("css selector", "img, script")
    button.send_keys("\ue007")
    assert not card.find_elements("css selector", ".context")
    assert button.get_attribute("aria-expanded") == "false"


def test_theme_button_turns_the_page_dark_and_back(card: Any) -> None:
    def ground() -> str:
        return str(card.execute_script("return getComputedStyle(document.body).backgroundColor"))

    before = ground()
    button = card.find_element("id", "theme")
    button.send_keys("\ue007")
    assert ground() != before
    assert card.execute_script("return document.documentElement.dataset.theme") == "dark"
    button.send_keys("\ue007")
    assert ground() == before


def test_graph_opens_and_shows_its_size(card: Any) -> None:
    holder = open_fold(card, "[data-graph]")
    assert holder.find_element("css selector", "[role=status]").text == "3 nodes, 2 links"


def test_card_fits_a_phone_without_scrolling_sideways(card: Any) -> None:
    # The smallest window of a headless Chromium is wider than a phone: measure in a frame of a phone's width.
    card.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        assert card.execute_script("return document.documentElement.scrollWidth") <= 360
    finally:
        card.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_every_control_has_a_name(card: Any) -> None:
    nameless = card.execute_script(
        "return [...document.querySelectorAll('button, input, select, summary, a[href]')]"
        ".filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).length"
    )
    assert nameless == 0


def test_index_opens_from_disk_without_a_request(driver: Any, written: Path) -> None:
    for log in ("browser", "performance"):
        driver.get_log(log)
    driver.get((written / "index.html").as_uri())
    assert driver.find_elements("css selector", "a[href='tiny.html']")
    holder = driver.find_element("css selector", "[data-table='compare-differences']")
    assert not holder.get_attribute("data-built")  # folded
    assert not [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not outside(driver)
