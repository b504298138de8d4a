"""The pages in a real browser: keys, folding, links to entries, following, and nothing that should not happen."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from histories import run_start
from runs import agent, started
from viewer.conftest import EXAMPLE
from viewer.hostile import IDS, write_hostile

from alpineagents import SqliteStore
from alpineagents.types import Message

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SETTINGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine: apt install chromium"),
    pytest.mark.timeout(180),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, examples: Path) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    shutil.copy(examples, folder / "runs.db")
    write_hostile(folder / "hostile.db")
    with SqliteStore(folder / "live.db") as store:
        agent("Hello", store=store).run(started("Hi", id="done"))
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[str]:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    files = [str(folder / name) for name in ("runs.db", "hostile.db", "live.db")]
    command = [sys.executable, "-m", "datasette", *files, "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=SETTINGS)
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium: Any, served: str) -> Iterator[Any]:
    """A page that complains of every dialog, error, violation and request to another host."""
    wrong: list[str] = []
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, base_url=served)
    page = context.new_page()
    page.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith((served, "data:")) else wrong.append(asked.url))
    yield page
    context.close()
    assert wrong == []


PAGES = [
    "/runs/-/runs",
    f"/runs/-/runs/{EXAMPLE}",
    "/runs/-/runs/coder-7c2e",
    "/runs/-/runs/triage-b91f",
    "/runs/-/runs/coder-7c2e/at/36",
    "/runs/-/tools",
    "/runs/-/tools/calls?outcome=failed",
    "/runs/-/runs/coder-7c2e/entries/23",
]
HOSTILE = [
    "/hostile/-/runs",
    "/hostile/-/tools",
    "/hostile/-/tools/calls",
    *[f"/hostile/-/runs/{id}{rest}" for id in IDS for rest in ("", "/at/5", "/entries/3?raw=1")],
]


@pytest.mark.parametrize("width", [380, 1280, 2000])
@pytest.mark.parametrize("page", [*PAGES, *HOSTILE])
def test_a_page_loads_quietly_and_is_not_wider_than_the_window(tab: Any, page: str, width: int) -> None:
    tab.set_viewport_size({"width": width, "height": 900})
    tab.goto(page)
    tab.wait_for_timeout(50)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.locator("h1").count() == 1


def lightness(color: str) -> float:
    """Relative luminance: https://www.w3.org/TR/WCAG21/#dfn-relative-luminance."""
    numbers = [float(part) for part in color[color.index("(") + 1 : -1].split(",")[:3]]
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in [n / 255 for n in numbers]
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_every_text_stands_out_from_its_ground(tab: Any, page: str, scheme: str) -> None:
    tab.emulate_media(color_scheme=scheme)
    tab.goto(page)
    found = tab.evaluate(
        """() => Array.from(document.querySelectorAll("main.aa *"))
        .filter((item) => Array.from(item.childNodes).some((node) => node.nodeType === 3 && node.data.trim())
            && item.offsetParent && !item.closest("svg") && !["OPTION", "SELECT"].includes(item.tagName))
        .map((item) => {
            let ground = item;
            const clear = (each) => /rgba\\(.*, 0\\)|transparent/.test(getComputedStyle(each).backgroundColor);
            while (ground.parentElement && clear(ground)) ground = ground.parentElement;
            const about = item.className + " " + item.textContent.slice(0, 40);
            return [getComputedStyle(item).color, getComputedStyle(ground).backgroundColor, about];
        })"""
    )
    assert found
    for ink, ground, text in found:
        light, dark = sorted([lightness(ink), lightness(ground)], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ink, ground)


def test_a_link_to_an_entry_opens_its_turn(tab: Any) -> None:
    tab.goto("/runs/-/runs/coder-7c2e")
    folded = tab.locator("details.aa-turn:not([open]) .aa-entry").first
    seq = folded.get_attribute("id")
    assert not folded.is_visible()
    tab.goto(f"/runs/-/runs/coder-7c2e#{seq}")
    tab.wait_for_timeout(100)
    assert tab.locator(f"#{seq}").is_visible()


def test_turns_open_and_fold_together_and_a_click_elsewhere_leaves_them(tab: Any) -> None:
    tab.goto("/runs/-/runs/coder-7c2e")
    before = tab.locator("details.aa-turn[open]").count()
    tab.locator("h1").click()
    tab.locator("header").click(position={"x": 600, "y": 10})
    tab.wait_for_timeout(100)
    assert tab.locator("details.aa-turn[open]").count() == before
    tab.get_by_role("button", name="Open all").click()
    assert tab.locator("details.aa-turn:not([open])").count() == 0
    tab.get_by_role("button", name="Fold all").click()
    assert tab.locator("details.aa-turn[open]").count() == 0


def test_keys_go_from_entry_to_entry_and_to_the_next_error(tab: Any) -> None:
    tab.goto("/runs/-/runs/coder-7c2e")
    tab.keyboard.press("j")
    first = tab.locator(".aa-marked").get_attribute("id")
    tab.keyboard.press("j")
    assert tab.locator(".aa-marked").get_attribute("id") != first
    tab.keyboard.press("k")
    assert tab.locator(".aa-marked").get_attribute("id") == first
    tab.keyboard.press("e")
    assert tab.locator(".aa-marked").get_attribute("id") == "e23"


def test_keys_and_the_slider_step_through_a_run(tab: Any) -> None:
    tab.goto("/runs/-/runs/coder-7c2e/at/10")
    tab.keyboard.press("ArrowRight")
    tab.wait_for_url("**/at/11")
    tab.keyboard.press("ArrowLeft")
    tab.wait_for_url("**/at/10")
    tab.keyboard.press("End")
    tab.wait_for_url("**/at/42")
    slider = tab.locator("input[type=range]")
    slider.evaluate("(item) => { item.value = 7; item.dispatchEvent(new Event('change')); }")
    tab.wait_for_url("**/at/7")


def test_keys_do_nothing_while_typing(tab: Any) -> None:
    tab.goto("/runs/-/runs")
    tab.keyboard.press("/")
    tab.keyboard.type("jke")
    assert tab.locator("input[type=search]").input_value() == "jke"


def test_everything_can_be_reached_without_scripts(chromium: Any, served: str) -> None:
    context = chromium.new_context(java_script_enabled=False, base_url=served)
    page = context.new_page()
    page.goto("/runs/-/runs")
    page.get_by_role("link", name="TimeDelta serialization precision: 345").first.click()
    page.get_by_role("link", name="Step through", exact=True).click()
    page.get_by_role("link", name="←").click()
    assert page.url.endswith("/at/13")
    context.close()


def test_a_run_that_goes_on_is_followed(tab: Any, folder: Path) -> None:
    state = started("Watch me", id="watched")
    with SqliteStore(folder / "live.db") as store:
        run_start(state, "watched")
        store.save(state)
        tab.goto("/live/-/runs/watched")
        assert "Running" in tab.locator("h1").inner_text()
        state.add_message(Message.user("Something new"))
        store.save(state)
        tab.get_by_text("Something new").first.wait_for(timeout=15_000)
        tab.get_by_role("button", name="Pause").click()
        state.add_message(Message.user("Even more"))
        store.save(state)
        tab.wait_for_timeout(2_500)
        assert tab.get_by_text("Even more").count() == 0
