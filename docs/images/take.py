"""Take the README's screenshots of a study that has been run: python docs/images/take.py [STUDY] [--cards].

With ``--cards`` those of the cards alone; a study of the two controls has no other card.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from selenium import webdriver

HERE = Path(__file__).parent
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
)  # fmt: skip
# Model training instead of GenAI, and no assistant beside the table.
PLAIN = """
for (const name of ['Model training']) [...document.querySelectorAll('button, label, [role=radio], [role=tab], span')]
  .filter((e) => e.textContent.trim() === name).pop()?.click();
document.querySelector('[aria-label*="lose"]')?.click();
"""


def browser(width: int, height: int) -> webdriver.Chrome:
    """A headless Chromium with an empty profile."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS, f"--user-data-dir={tempfile.mkdtemp()}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(str(shutil.which("chromedriver"))))


def shoot(driver: webdriver.Chrome, address: str, name: str, wait: float, script: str = "") -> None:
    """One page, once it is drawn."""
    driver.get(address)
    time.sleep(wait)
    if script:
        driver.execute_script(script)
        time.sleep(2)
    driver.save_screenshot(str(HERE / f"{name}.png"))


def cards(study: Path) -> None:
    """The first screen of the controls' cards, and of a model's where there is one, with the index."""
    driver = browser(1280, 1400)
    reports = (study / "reports").resolve()
    for control in ("control-planted", "control-none"):
        shoot(driver, (reports / f"{control}.html").as_uri(), control, 3)
    models = [path for path in sorted(reports.glob("*.html"), reverse=True)
              if path.stem not in ("index", "literature") and not path.stem.startswith("control")]  # fmt: skip
    if models:
        shoot(driver, models[0].as_uri(), "card", 3)
        shoot(driver, (reports / "index.html").as_uri(), "index", 2)
    driver.quit()


def tracked(study: Path) -> None:
    """The two pages of MLflow."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = f"sqlite:///{(study / 'mlflow.db').resolve()}"
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", store, "--port", str(port)]
    server = subprocess.Popen([*command, "--workers", "1"], cwd=study, start_new_session=True)
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{address}/health", timeout=2)
                break
            except OSError:
                time.sleep(1)
        driver = browser(3600, 640)
        driver.get(address)
        time.sleep(8)
        driver.execute_script(PLAIN)
        time.sleep(2)
        shoot(driver, f"{address}/#/experiments/1/models", "mlflow-models", 15)
        shoot(driver, f"{address}/#/experiments/1/runs?viewStateShareKey=headline", "mlflow-runs", 45)
        driver.quit()
    finally:
        os.killpg(server.pid, signal.SIGTERM)


if __name__ == "__main__":
    named = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    chosen = Path(named[0] if named else ".")
    cards(chosen)
    if "--cards" not in sys.argv:
        tracked(chosen)
