"""What every page of the viewer goes through: whose file it is, who may see it, how it is answered."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import agent, started
from viewer.conftest import EXAMPLE, Site, main_of

from alpineagents import SqliteStore

PAGES = [
    "runs",
    f"runs/{EXAMPLE}",
    f"runs/{EXAMPLE}/at/8",
    f"runs/{EXAMPLE}/entries/4",
    "tools",
    "tools/calls?outcome=failed",
]
DENIED = {"allow": False}


def twin(page: str) -> str:
    path, mark, query = page.partition("?")
    return f"{path}.json{mark}{query}"


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_there_with_its_json_twin_and_says_so(site: Site, page: str) -> None:
    text = site.page(f"/runs/-/{page}")
    assert f'href="/runs/-/{twin(page)}"' in text
    assert isinstance(site.data(f"/runs/-/{twin(page)}"), dict)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_one_heading_a_main_part_and_a_title(site: Site, page: str) -> None:
    text = site.page(f"/runs/-/{page}")
    assert len(re.findall("<h1", text)) == 1
    assert len(re.findall("<main", text)) == 1
    assert re.search(r"<title>\S.* – runs</title>", text)
    assert "<nav" in text


@pytest.mark.parametrize("page", PAGES)
def test_nothing_runs_but_what_datasette_and_the_plugin_bring(site: Site, page: str) -> None:
    answer = site.get(f"/runs/-/{page}")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"\son\w+=|\sstyle=|javascript:", main_of(answer.text))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_sent(site: Site, method: str) -> None:
    assert site.get("/runs/-/runs", method).status_code in (403, 405)


def test_the_file_is_only_read(examples: Path, site: Site) -> None:
    before = examples.read_bytes()
    for page in PAGES:
        site.page(f"/runs/-/{page}")
    assert examples.read_bytes() == before


@pytest.mark.parametrize("page", PAGES)
def test_a_database_that_is_not_ours_has_no_pages(serve: Callable[..., Site], tmp_path: Path, page: str) -> None:
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("CREATE TABLE states (id)")
    connection.close()
    other = serve(tmp_path / "runs.db")
    assert other.get(f"/runs/-/{page}").status_code == 404
    assert other.get(f"/nothing/-/{page}").status_code == 404
    assert "Agent runs" not in other.page("/")


@pytest.mark.parametrize(
    "denied",
    [
        DENIED,
        {"databases": {"runs": DENIED}},
        *[{"databases": {"runs": {"tables": {table: DENIED}}}} for table in ("states", "entries", "blobs")],
    ],
    ids=["instance", "database", "states", "entries", "blobs"],
)
@pytest.mark.parametrize("page", PAGES)
def test_who_may_not_see_the_tables_may_not_see_the_pages(
    serve: Callable[..., Site], examples: Path, denied: dict[str, Any], page: str
) -> None:
    closed = serve(examples, config=denied)
    assert closed.get(f"/runs/-/{page}").status_code == 403
    assert closed.get(f"/runs/-/{twin(page)}").status_code == 403
    assert "Agent runs" not in closed.get("/").text


def test_who_may_not_run_sql_gets_no_link_to_it(serve: Callable[..., Site], examples: Path) -> None:
    assert ">SQL</a>" in serve(examples).page("/runs/-/runs")
    assert ">SQL</a>" not in serve(examples, settings={"default_allow_sql": False}).page("/runs/-/runs")


def test_the_menu_and_the_page_of_the_database_lead_here(site: Site) -> None:
    assert 'href="/runs/-/runs">Agent runs</a>' in site.page("/")
    assert 'href="/runs/-/tools"' in site.page("/runs")


def test_a_base_url_is_in_front_of_every_address(serve: Callable[..., Site], examples: Path) -> None:
    below = serve(examples, settings={"base_url": "/below/"})
    text = below.page(f"/runs/-/runs/{EXAMPLE}")
    addresses = re.findall(r'(?:href|src)="(/[^"]*)"', text)
    assert addresses
    assert not [address for address in addresses if not address.startswith("/below/")]


@pytest.mark.parametrize("name", ["my runs.v2", "läufe", "a+b%c", "x'y"])
def test_names_of_databases_may_be_odd(serve: Callable[..., Site], examples: Path, tmp_path: Path, name: str) -> None:
    odd = tmp_path / f"{name}.db"
    shutil.copy(examples, odd)
    served = serve(odd)
    base = served.datasette.urls.database(next(each for each in served.datasette.databases if each != "_internal"))
    text = served.page(f"{base}/-/runs/{EXAMPLE}")
    link = re.search(r'href="([^"]*/at/14)"', text)
    assert link is not None
    assert served.get(link[1].replace("&#39;", "'")).status_code == 200


def test_several_databases_stand_side_by_side(serve: Callable[..., Site], examples: Path, tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "second.db") as store:
        agent("Hello", store=store).run(started("Hi", id="only"))
    both = serve(examples, tmp_path / "second.db")
    assert [row["id"] for row in both.data("/second/-/runs.json")["rows"]] == ["only"]
    assert both.get("/runs/-/runs/only").status_code == 404
    assert "Agent runs in second" in both.page("/")


def test_an_immutable_file_with_a_log_beside_it_says_what_is_missing(
    serve: Callable[..., Site], examples: Path, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    shutil.copy(examples, path)
    Path(f"{path}-wal").write_bytes(b"x" * 32)
    frozen = Site()
    frozen.datasette = type(frozen.datasette)([], immutables=[str(path)])
    assert "rows written later are not visible" in frozen.page("/runs/-/runs")
    assert "rows written later" not in serve(examples).page("/runs/-/runs")
