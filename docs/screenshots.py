"""Takes the screenshots of the README: one page of the server and one report, of the demo project.

    .venv/bin/python docs/screenshots.py [FOLDER]

It needs Chromium and `pip install playwright`, makes the demo project (about a minute; an existing
FOLDER is used again), serves it on a free port and writes docs/images/pages.png and report.png.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn

from ragwright import Workbench
from ragwright.serve import ServedProject, make_app

IMAGES = Path(__file__).parent / "images"
QUESTION = "How does reciprocal rank fusion combine two rankings?"
MOST = 150_000
"""Bytes of a picture."""


def main(folder: Path) -> None:
    """Make the demo project where it is missing, serve it and take the pictures."""
    if not (folder / "report.html").exists():
        command = [sys.executable, "-m", "ragwright", "demo", str(folder), "--full", "-q"]
        subprocess.run(command, check=True)
    with Workbench.open(folder) as bench:
        sweep = bench.list_sweeps()[0].id
    server = uvicorn.Server(
        uvicorn.Config(make_app(ServedProject(folder)), port=0, log_level="error")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        _take(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", sweep)
    finally:
        server.should_exit = True
        thread.join()


def _take(address: str, sweep: str) -> None:
    playing: Any = importlib.import_module("playwright.sync_api")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    asked = urlencode([("q", QUESTION), ("persona", "engineer")])
    IMAGES.mkdir(exist_ok=True)
    with playing.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1200, "height": 580})
        page.goto(f"{address}/?{asked}")
        page.click("#send")
        page.wait_for_selector(".turn .why")
        page.click(".turn .mark >> nth=0")
        page.wait_for_selector("#beside mark")
        page.eval_on_selector("section.card", "card => card.scrollIntoView()")
        page.mouse.move(0, 0)
        _keep(page, "pages.png")
        page.set_viewport_size({"width": 1280, "height": 820})
        page.goto(f"{address}/experiments/{sweep}")
        page.wait_for_selector("#list[data-ready]", state="attached")
        _keep(page, "report.png")
        chromium.close()


def _keep(page: Any, name: str) -> None:
    path = IMAGES / name
    page.screenshot(path=path)
    size = path.stat().st_size
    if size > MOST:
        raise SystemExit(f"{path} has {size:,} bytes; at most {MOST:,} are wanted")
    sys.stdout.write(f"{path}: {size:,} bytes\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary) / "demo")
