from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from alpineagents.store import SqliteStore, check

FIXTURES = Path(__file__).parent.parent.parent / "fixtures" / "transcripts"
SMALL = FIXTURES / "claude-code-small.jsonl"
EDGES = FIXTURES / "claude-code-edge-cases.jsonl"

Cli = Callable[..., Result]


def test_a_folder_is_imported_and_told_file_by_file(cli: Cli, path: Path) -> None:
    said = cli("import", path, FIXTURES).stdout.splitlines()
    assert said[-1] == f"10 States imported into {path}"
    assert f"{SMALL}: claude-code: 1 State added; 5 messages, 2 calls, 2 results" in said
    assert check(path) == []
    assert len(SqliteStore(path).list()) == 10


def test_what_was_mended_is_told_with_its_line(cli: Cli, path: Path) -> None:
    said = cli("import", path, EDGES).stdout
    assert "4 repaired; 6 left out" in said
    assert "  line 10 left out: its message has no content\n" in said


def test_importing_again_changes_nothing(cli: Cli, path: Path) -> None:
    cli("import", path, SMALL)
    before = path.read_bytes()
    assert f"{SMALL}: claude-code: 1 State there already\n" in cli("import", path, SMALL).stdout
    assert path.read_bytes() == before


def test_strict_refuses_what_cannot_be_kept_as_it_is(cli: Cli, path: Path) -> None:
    result = cli("import", path, EDGES, "--strict")
    assert result.exit_code == 1
    assert "refused by --strict" in result.stdout
    assert SqliteStore(path).list() == []
    assert cli("import", path, SMALL, "--strict").exit_code == 0


def test_one_good_source_of_several_is_enough(cli: Cli, path: Path, tmp_path: Path) -> None:
    odd = tmp_path / "notes.txt"
    odd.write_text("Dear diary")
    result = cli("import", path, odd, SMALL)
    assert result.exit_code == 0
    assert f"{odd}: not imported: no known format; looked for " in result.stdout


@pytest.mark.parametrize("content", [b"", b"Dear diary", b"{}", b"[1, 2]", b"\xff\xfe\x00", b"\x00" * 5000])
def test_a_source_of_no_known_format_says_what_was_looked_for(
    cli: Cli, path: Path, tmp_path: Path, content: bytes
) -> None:
    odd = tmp_path / "odd"
    odd.write_bytes(content)
    result = cli("import", path, odd)
    assert result.exit_code == 1
    assert "nothing was imported: no known format; looked for " in result.stderr
    for title in ("Claude Code", "SWE-agent", "Inspect", "OpenAI"):
        assert title in result.stderr


def test_a_source_that_is_not_there(cli: Cli, path: Path, tmp_path: Path) -> None:
    result = cli("import", path, tmp_path / "nowhere.jsonl")
    assert (result.exit_code, result.stderr) == (1, f"Error: there is no {tmp_path / 'nowhere.jsonl'}\n")


def test_an_empty_folder(cli: Cli, path: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = cli("import", path, tmp_path / "empty")
    assert (result.exit_code, result.stderr) == (1, "Error: there is no file in what was named\n")


def test_a_file_of_another_application_stays_as_it_is(cli: Cli, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cats (name)")
    connection.close()
    before = path.read_bytes()
    result = cli("import", path, SMALL)
    assert result.exit_code == 1
    assert path.read_bytes() == before


def test_without_a_file_it_is_the_default_one(cli: Cli, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPINEAGENTS_DB", str(path))
    assert cli("import", SMALL, EDGES).stdout.endswith(f"3 States imported into {path}\n")


def test_for_programs_it_is_json(cli: Cli, path: Path) -> None:
    report, other = json.loads(cli("import", path, SMALL, EDGES, "--json").stdout)
    assert (report["format"], report["added"], report["kept"]["calls"]) == ("claude-code", 1, 2)
    assert other["notes"][1] == {"place": "line 10", "kind": "left out", "text": "its message has no content"}


def test_notes_are_cut_unless_asked_for(cli: Cli, path: Path, tmp_path: Path) -> None:
    broken = tmp_path / "session.jsonl"
    broken.write_bytes(SMALL.read_bytes() + b"oops\n" * 30)
    assert "  and 10 more: --notes says them all\n" in cli("import", path, broken).stdout
    path.unlink()
    assert cli("import", path, broken, "--notes").stdout.count("left out: not JSON") == 30


def generate(path: Path, megabytes: int) -> int:
    """Session lines of about this size; gives how many there are."""
    session, count = "long-session", 0
    with path.open("w") as file:
        while file.tell() < megabytes * 1_000_000:
            at = f"2026-01-01T{count // 3600 % 24:02}:{count // 60 % 60:02}:{count % 60:02}.000Z"
            message = {"role": "user", "content": "x" * 2000}
            parent = None if count == 0 else f"u{count - 1}"
            record = {"type": "user", "uuid": f"u{count}", "parentUuid": parent, "sessionId": session, "timestamp": at}
            file.write(json.dumps({**record, "message": message}) + "\n")
            count += 1
    return count


@pytest.mark.soak
def test_many_lines_are_imported_in_bounded_memory(tmp_path: Path) -> None:
    count = generate(tmp_path / "session.jsonl", 200)
    code = (
        "import resource, sys\nfrom alpineagents.cli import main\n"
        "try:\n    main(['import', *sys.argv[1:]])\nexcept SystemExit:\n    pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "runs.db"), str(tmp_path / "session.jsonl")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"{count} messages" in said
    assert int(said.splitlines()[-1]) < 200  # MB: the whole library is about 60
