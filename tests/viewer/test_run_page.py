"""One run: how it stands, its subagents, what is in flight, its entries turn by turn."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from datasette_alpineagents.run_page import PAGE_SIZE
from runs import agent, call, started
from viewer.conftest import EXAMPLE, Site

from alpineagents import SqliteStore, State, tool
from alpineagents.testing import FakeModel
from alpineagents.types import Message


@pytest.mark.parametrize(
    ("id", "sentence"),
    [
        (EXAMPLE, "Stopped: the model answered and waits for you"),
        ("triage-b91f", "Stalled: nothing recorded for "),
        ("bump-httpx-5b0c", "Running: in bash"),
        ("msgpack-9e13", "Failed in turn 2: TimeoutError: no reply"),
        ("tester-51aa", "Stopped at the limit of 6 turns"),
        ("release-322", "denied a call"),
    ],
)
def test_the_first_line_says_how_it_stands(site: Site, id: str, sentence: str) -> None:
    heading = re.search(r"<h1>(.*?)</h1>", site.page(f"/runs/-/runs/{id}"), re.DOTALL)
    assert heading is not None
    assert sentence in heading[1]


def test_the_tree_leads_to_every_agent_in_it(site: Site) -> None:
    for id in (EXAMPLE, "coder-7c2e", "tester-51aa"):
        text = site.page(f"/runs/-/runs/{id}")
        for other in (EXAMPLE, "coder-7c2e", "reviewer-0d11", "tester-51aa"):
            assert f'href="/runs/-/runs/{other}"' in text
        assert text.count('aria-current="page"') == 1
    crumbs = re.search(r'<p class="crumbs">(.*?)</p>', site.page("/runs/-/runs/tester-51aa"))
    assert crumbs is not None
    assert re.findall(r">([^<]+)</a>", crumbs[1]) == ["home", "runs", "agent runs", EXAMPLE, "reviewer", "tester"]


def test_every_entry_has_its_place(site: Site) -> None:
    text = site.page("/runs/-/runs/coder-7c2e")
    assert [int(seq) for seq in re.findall(r'id="e(\d+)"', text)] == list(range(42))
    assert "what the model saw" in text


def test_what_is_in_flight_stands_on_top(site: Site) -> None:
    text = site.page("/runs/-/runs/triage-b91f")
    assert "In flight: may or may not have run" in text
    assert "pytest -q tests/test_context.py" in text
    assert "fetch(url=" in text


def test_worth_a_look_names_errors_denials_people_and_changes(site: Site) -> None:
    text = site.page("/runs/-/runs/coder-7c2e")
    for words in ("edit error", "a person said yes", "bash denied", "clear tool results: 16,930 → 1,502 tokens"):
        assert words in text


def test_images_are_shown_from_their_own_address(site: Site) -> None:
    (source,) = set(re.findall(r'src="(/runs/-/blobs/[0-9a-f]{64})"', site.page("/runs/-/runs/triage-b91f")))
    answer = site.get(source)
    assert answer.headers["content-type"] == "image/png"
    assert answer.content.startswith(b"\x89PNG")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == "inline"


@pytest.mark.parametrize("hash", ["0" * 64, "g" * 64, "abc"])
def test_an_image_that_is_not_there(site: Site, hash: str) -> None:
    assert site.get(f"/runs/-/blobs/{hash}").status_code == 404


def test_a_blob_of_another_type_is_not_served(serve: Callable[..., Site], examples: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    shutil.copy(examples, path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE blobs SET media_type = 'image/svg+xml'")
        (hash,) = connection.execute("SELECT sha256 FROM blobs").fetchone()
    connection.close()
    assert serve(path).get(f"/runs/-/blobs/{hash}").status_code == 404


@pytest.mark.parametrize("id", ["nobody", "a/b", "..", "x" * 200])
def test_a_run_that_is_not_there(site: Site, id: str) -> None:
    assert site.get(f"/runs/-/runs/{id}").status_code == 404


def test_an_entry_whole_is_at_its_own_address(site: Site) -> None:
    text = site.page("/runs/-/runs/coder-7c2e/entries/23")
    assert "This is how your edit would have looked if applied" in text or "E999" in text
    assert site.data("/runs/-/runs/coder-7c2e/entries/23.json")["kind"] == "tool_result"
    assert site.get("/runs/-/runs/coder-7c2e/entries/99").status_code == 404


def long_run(path: Path, messages: int) -> None:
    with SqliteStore(path, synchronous="normal") as store:
        state = State(id="long")
        for number in range(messages):
            state.add_message(Message.user(f"message {number}"))
        store.save(state)


def test_a_long_run_has_pages_and_a_link_finds_its_entry(serve: Callable[..., Site], tmp_path: Path) -> None:
    long_run(tmp_path / "runs.db", 2 * PAGE_SIZE + 10)
    long = serve(tmp_path / "runs.db")
    first = long.page("/runs/-/runs/long")
    assert "message 0<" in first
    assert f"message {PAGE_SIZE}<" not in first
    assert f'id="e{PAGE_SIZE + 5}"' in long.page(f"/runs/-/runs/long?entry={PAGE_SIZE + 5}")
    seen: list[int] = []
    address: str | None = "/runs/-/runs/long.json"
    while address:
        data = long.data(address)
        seen += [row["seq"] for row in data["rows"]]
        address = data["next"]
    assert seen == list(range(2 * PAGE_SIZE + 10))
    assert long.get("/runs/-/runs/long?first=99999999&entry=x").status_code == 200


def test_a_large_result_is_shown_by_its_start(serve: Callable[..., Site], tmp_path: Path) -> None:
    @tool
    def dump() -> str:
        """Dump."""
        return "start of it\n" + "x" * 5_000_000

    with SqliteStore(tmp_path / "runs.db") as store:
        model = FakeModel([call("dump", "d1"), "Done"], context_window=10_000_000)
        agent(model=model, tools=[dump], store=store).run(started(id="big"))
    big = serve(tmp_path / "runs.db")
    text = big.page("/runs/-/runs/big")
    assert len(text) < 200_000
    assert "start of it" in text
    assert "5.0 MB" in text
    assert len(big.page("/runs/-/runs/big/entries/4")) > 5_000_000


def test_damaged_rows_are_shown_in_their_place(serve: Callable[..., Site], examples: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    shutil.copy(examples, path)
    with sqlite3.connect(path) as connection:
        for seq, data in ((4, "no json"), (5, "[]"), (8, '{"content": 7}'), (11, "{}")):
            update = "UPDATE entries SET data = ?, original = NULL WHERE state_id = 'coder-7c2e' AND seq = ?"
            connection.execute(update, (data, seq))
        connection.execute("UPDATE entries SET kind = 'gossip' WHERE state_id = 'coder-7c2e' AND seq = 14")
        connection.execute("UPDATE entries SET at = 'once' WHERE state_id = 'coder-7c2e' AND seq = 17")
    connection.close()
    damaged = serve(path)
    text = damaged.page("/runs/-/runs/coder-7c2e")
    assert text.count(": damaged. ") >= 4
    assert [int(seq) for seq in re.findall(r'id="e(\d+)"', text)] == list(range(42))
    assert "This State cannot be computed" in damaged.page("/runs/-/runs/coder-7c2e/at/20")
    assert "This State cannot be computed" not in damaged.page("/runs/-/runs/coder-7c2e/at/4")
    assert damaged.get("/runs/-/runs").status_code == 200
    assert damaged.get("/runs/-/tools").status_code == 200


def test_news_of_a_run_count_what_is_new(site: Site) -> None:
    news = site.data("/runs/-/runs/coder-7c2e/news.json?after=40")
    assert (news["entries"], news["last_seq"], news["status"]) == (2, 41, "answered")
