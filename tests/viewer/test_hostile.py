"""Whatever a model or a tool says is shown, and never becomes part of the page."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from viewer.conftest import Site, main_of
from viewer.hostile import IDS, write_hostile

from alpineagents import SqliteStore


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(write_hostile(tmp_path_factory.mktemp("hostile") / "runs.db"))


class Seen(HTMLParser):
    """The elements of a page with their attributes, and all its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def addresses(evil: Site) -> list[str]:
    entries = {id: SqliteStore(Path(evil.datasette.files[0])).load(id).history for id in IDS}
    return [
        "/runs/-/runs",
        "/runs/-/tools",
        "/runs/-/tools/calls",
        *[f"/runs/-/runs/{id}" for id in IDS],
        *[f"/runs/-/runs/{id}/at/{length}" for id in IDS for length in range(len(entries[id]) + 1)],
        *[f"/runs/-/runs/{id}/entries/{seq}" for id in IDS for seq in range(len(entries[id]))],
        *[f"/runs/-/runs/{id}/entries/{seq}?raw=1" for id in IDS for seq in range(len(entries[id]))],
    ]


def test_no_text_becomes_an_element_or_an_attribute(evil: Site) -> None:
    for address in addresses(evil):
        seen = Seen(main_of(evil.page(address)))
        for tag, attributes in seen.elements:
            assert tag not in ("script", "style", "iframe", "object", "embed", "base", "textarea", "img"), address
            assert not [name for name in attributes if name.startswith("on")], address
            for name in ("href", "src", "action", "data-follow"):
                target = attributes.get(name)
                assert target is None or target.startswith(("/", "#")), (address, target)
        read = seen.text + "".join([attributes.get("title") or "" for _, attributes in seen.elements])
        assert not {"\u202e", "\u200b", "\x1b"} & set(read), address


def test_nothing_of_it_is_lost_from_view(evil: Site) -> None:
    text = Seen(evil.page("/runs/-/runs/evil")).text
    for part in ("<script>alert(1)</script>", "onerror=alert(1)", "{{ 7 * 7 }}", "‹U+202E›", "red"):
        assert part in text
    whole = Seen(evil.page("/runs/-/runs/evil/entries/4?raw=1")).text
    assert "‹U+001B›" in whole or "\\u001b" in whole


def test_json_twins_hold_it_as_data(evil: Site) -> None:
    for address in ("runs", "runs/evil", "runs/evil/at/5", "tools", "tools/calls"):
        answer = evil.get(f"/runs/-/{address}.json")
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert answer.headers["x-content-type-options"] == "nosniff"
        answer.json()


@pytest.mark.parametrize("evil_value", ["<script>", "\"'><x>", "\u202e", "%00", "{{7*7}}"])
def test_what_stands_in_the_address_is_data_too(evil: Site, evil_value: str) -> None:
    for name in ("q", "status", "agent", "model", "tool", "outcome", "time", "day", "sort", "dir", "next"):
        html = main_of(evil.page(f"/runs/-/runs?{name}={evil_value}"))
        assert "<script>" not in html
        assert "<x>" not in html
