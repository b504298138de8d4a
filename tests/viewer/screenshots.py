"""Pictures of every page, made from the demo: `python tests/viewer/screenshots.py FOLDER`, or `make screenshots`.

Without a folder, those of the documentation are made anew.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from shutil import which

from playwright.sync_api import sync_playwright

from alpineagents.demo import play

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
PORT = 8917
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def pages(path: Path) -> dict[str, str]:
    """The address of each page, by the name of its picture."""
    connection = sqlite3.connect(path)
    (team,) = connection.execute("SELECT id FROM states WHERE agent = 'lead'").fetchone()
    (fix,) = connection.execute("SELECT id FROM states WHERE status = 'finished'").fetchone()
    connection.close()
    return {
        "runs": "/runs/-/runs",
        "run": f"/runs/-/runs/{team}",
        "step": f"/runs/-/runs/{fix}/at/13",
        "tools": "/runs/-/tools",
        "calls": "/runs/-/tools/calls?outcome=failed",
    }


def take(folder: Path, schemes: tuple[str, ...], widths: tuple[int, ...]) -> None:
    """Take the pictures; the plain name is the light one at 1,280 pixels."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "runs.db"
        play(path, lambda line: None, pace=0.0)
        server = subprocess.Popen(
            [sys.executable, "-m", "datasette", str(path), "-p", str(PORT)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(200):
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/")
                break
            time.sleep(0.1)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=which("chromium"), args=FLAGS)
            for name, address in pages(path).items():
                for scheme in schemes:
                    for width in widths:
                        page = browser.new_page(viewport={"width": width, "height": 860}, color_scheme=scheme)
                        page.goto(f"http://127.0.0.1:{PORT}{address}")
                        plain = scheme == "light" and width == widths[-1]
                        page.screenshot(path=folder / (f"{name}.png" if plain else f"{name}-{scheme}-{width}.png"))
                        page.close()
            browser.close()
        server.kill()
        server.wait()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        take(Path(sys.argv[1]), ("light", "dark"), (380, 1280))
    else:
        take(IMAGES, ("light",), (1280,))
