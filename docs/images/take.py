"""Take the README's screenshots of a study that has been run: python docs/images/take.py [STUDY]."""

from __future__ import annotations

import shutil
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


def browser(width: int, height: int) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS, f"--user-data-dir={tempfile.mkdtemp()}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(str(shutil.which("chromedriver"))))


def shoot(driver: webdriver.Chrome, address: str, name: str, wait: float, script: str = "") -> None:
    driver.get(address)
    time.sleep(wait)
    if script:
        driver.execute_script(script)
        time.sleep(2)
    driver.save_screenshot(str(HERE / f"{name}.png"))


def main(study: Path) -> None:
    driver = browser(1280, 1400)
    shoot(driver, (study / "reports" / "index.html").resolve().as_uri(), "index", 2)
    card = next(path for path in sorted((study / "reports").glob("*.html"), reverse=True)
                if path.stem != "index" and not path.stem.startswith("control"))  # fmt: skip
    shoot(driver, card.resolve().as_uri(), "card", 3)
    driver.quit()
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
        driver = browser(1600, 700)
        shoot(driver, f"{address}/#/experiments/1/runs?viewStateShareKey=headline", "mlflow-runs", 20)
        shoot(driver, f"{address}/#/experiments/1/models", "mlflow-models", 12)
        driver.quit()
    finally:
        server.terminate()
        server.wait(30)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
