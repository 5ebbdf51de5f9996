"""The card in a real browser: it opens from disk, asks no network for anything, and does what it offers."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reporting.conftest import CARD, write_result

from markedness.lm.config import ScriptedModel
from markedness.reporting.pages import Pages
from markedness.reporting.report import write
from markedness.store import Store

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


def test_figure_is_saved_as_it_is_drawn(card: Any) -> None:
    button = card.find_element("css selector", "[data-svg]")
    until(lambda: card.find_elements("css selector", ".draw svg"))
    card.execute_script(
        "const made = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return made(blob); }"
    )
    button.send_keys("\ue007")
    assert until(lambda: card.execute_script("return window.saved")).startswith("<svg")


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


@pytest.fixture(scope="module")
def controls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """reports/ of the two controls: something was planted in one, and nothing found in the other."""
    store, rng = Store(tmp_path_factory.mktemp("controls")), np.random.default_rng(2)
    write_result(store, "control-none", 0.0, rng, p=0.6)
    write_result(store, "control-planted", 0.3, rng)
    models = {
        "control-none": ScriptedModel(backend="scripted"),
        "control-planted": ScriptedModel(backend="scripted", rule="planted"),
    }
    write(Pages(store, ("personas",), models, {"personas": CARD}))
    return store.reports()


def first_screen(driver: Any, page: Path) -> str:
    """The text that a window of 1200 x 900 shows before anybody scrolls."""
    driver.set_window_size(1200, 900)
    driver.get(page.as_uri())
    return str(
        driver.execute_script(
            "return [...document.querySelectorAll('h1, h2, h3, p, li')].filter((e) => {"
            " const box = e.getBoundingClientRect(); return box.height && box.bottom <= innerHeight; })"
            ".map((e) => e.textContent).join('\\n')"
        )
    )


def test_first_screen_of_the_planted_control_says_what_is_planted(driver: Any, controls: Path) -> None:
    shown = first_screen(driver, controls / "control-planted.html")
    assert "What is planted in this control" in shown and "Every text about Black people says strong." in shown
    assert "1 of 2 tested scores found a difference" in shown


def test_first_screen_of_the_blind_control_says_that_nothing_was_found_and_what_would_have_been(
    driver: Any, controls: Path
) -> None:
    shown = first_screen(driver, controls / "control-none.html")
    assert "0 of 2 tested scores found a difference" in shown and "Nothing was found." in shown
    assert "an effect of 0.2 or more would have been found" in " ".join(shown.split())


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", ["index", "tiny"])
def test_no_chart_is_blank_and_text_is_readable_by_day_and_by_night(
    driver: Any, written: Path, page: str, theme: str
) -> None:
    driver.get((written / f"{page}.html").as_uri())
    driver.execute_script("localStorage.clear(); localStorage.setItem('theme', arguments[0]); location.reload()", theme)
    until(lambda: driver.execute_script("return document.documentElement.dataset.theme") == theme)
    until(lambda: not driver.find_elements("css selector", "[data-chart]:not([data-drawn])"))
    charts = driver.find_elements("css selector", "[data-chart]")
    assert bool(charts) == (page == "tiny")  # the index of this study has no comparison that is drawn
    marks = "g.role-mark path, g.role-mark rect, g.role-mark line"
    until(lambda: all(chart.find_elements("css selector", marks) for chart in charts))
    assert not [chart for chart in charts if "could not be drawn" in chart.text]
    contrast = driver.execute_script(CONTRAST)
    assert contrast >= 4.5, contrast  # WCAG 2, level AA
    driver.execute_script("localStorage.clear()")


CONTRAST = """
const light = (colour) => {
  const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((x) => x / 255)
    .map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
};
const ground = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$|transparent|color\\(/.test(colour)) return colour;
  }
  return 'rgb(255, 255, 255)';
};
return Math.min(...[...document.querySelectorAll('h1, h2, h3, p, li, td, th, dd, .mark, .caveat, .quiet')]
  .filter((e) => e.textContent.trim() && e.getClientRects().length && !e.closest('svg, .skip, .chips'))
  .map((e) => {
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }));
"""
"""The lowest contrast between a text and what is behind it."""


def test_index_is_read_by_keyboard(driver: Any, written: Path) -> None:
    driver.get((written / "index.html").as_uri())
    driver.execute_script("localStorage.clear()")
    keys = driver.switch_to.active_element
    keys.send_keys("\ue004")  # Tab
    assert driver.switch_to.active_element.text == "Skip to the content"
    reached = set()
    for _ in range(30):
        element = driver.switch_to.active_element
        if element.tag_name == "body":  # past the last one
            break
        reached.add(element.get_attribute("href") or element.get_attribute("id") or element.tag_name)
        assert driver.execute_script("return getComputedStyle(arguments[0]).outlineStyle", element) != "none"
        element.send_keys("\ue004")
    assert "theme" in reached and {name for name in reached if name.endswith("/tiny.html")}
    holder = open_fold(driver, "[data-table='compare-differences']")
    assert holder.find_element("css selector", "[role=status]").text == "1 of 1 row"


def test_index_opens_from_disk_without_a_request(driver: Any, written: Path) -> None:
    for log in ("browser", "performance"):
        driver.get_log(log)
    driver.get((written / "index.html").as_uri())
    assert driver.find_elements("css selector", "a[href='tiny.html']")
    holder = driver.find_element("css selector", "[data-table='compare-differences']")
    assert not holder.get_attribute("data-built")  # folded
    assert not [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not outside(driver)
