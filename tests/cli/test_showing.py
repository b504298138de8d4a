from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from histories import DONE, PNG, READ, entries, request, result, run_start, started, stop, think

from alpineagents import Message, SqliteStore, State
from alpineagents.types import RawBlock, StoppedByUntil, TextBlock, ToolResultEntry


@pytest.fixture
def state(store: SqliteStore) -> State:
    """A run with one call."""
    state = State(id="night-build", messages=[Message.user("Read a.py")])
    run_start(state, "coder")
    think(state, "I look.", READ)
    result(state, READ, "print(1)")
    think(state, "It prints 1.")
    stop(state, StoppedByUntil("waiting_for_user"))
    store.save(state)
    return state


def test_a_run_is_shown_as_it_prints(state: State, path: Path, cli: Callable[..., Result]) -> None:
    assert cli("show", path, state.id).stdout == f"{state}\n"


def test_the_start_of_an_id_will_do(state: State, path: Path, cli: Callable[..., Result]) -> None:
    assert cli("show", path, "night").stdout == f"{state}\n"


def test_the_whole_id_wins_over_longer_ones(
    state: State, store: SqliteStore, path: Path, cli: Callable[..., Result]
) -> None:
    store.save(State(id="night-build-2"))
    assert cli("show", path, "night-build").exit_code == 0
    several = cli("show", path, "night")
    assert (several.exit_code, several.stderr) == (
        1,
        "Error: several runs begin with 'night': night-build, night-build-2\n",
    )


@pytest.mark.parametrize("id", ["nope", "", "night-build%", "NIGHT", "\x1b[2J"])
def test_an_unknown_id_is_one_line(id: str, state: State, path: Path, cli: Callable[..., Result]) -> None:
    result = cli("show", path, id)
    problem = f"Error: there is no run {id!r} in {path}: see alpineagents list\n"
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", problem)


def test_a_single_word_that_is_a_file_is_wrong_usage(state: State, path: Path, cli: Callable[..., Result]) -> None:
    result = cli("show", path)
    assert result.exit_code == 2
    assert "is a file" in result.stderr


@pytest.mark.parametrize("at", range(8))
def test_at_n_is_the_run_after_its_first_entries(at: int, state: State, path: Path, cli: Callable[..., Result]) -> None:
    expected = f"{State(history=state.history[:at])}\n" if at else ""
    assert cli("show", path, state.id, "--at", at).stdout == expected


def test_at_n_goes_no_further_than_the_history(state: State, path: Path, cli: Callable[..., Result]) -> None:
    count = len(state.history)
    result = cli("show", path, state.id, "--at", count + 1)
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: night-build has fewer entries: --at takes 0 to {count}\n",
    )


def test_messages_are_what_the_model_would_see(state: State, path: Path, cli: Callable[..., Result]) -> None:
    assert cli("show", path, state.id, "--messages").stdout == (
        "[0] user\nRead a.py\n\n"
        '[1] assistant\nI look.\ntool read(path="a.py")\n\n'
        "[2] user\nresult of read:\nprint(1)\n\n"
        "[3] assistant\nIt prints 1.\n"
    )


def test_messages_at_n_are_what_it_saw_then(state: State, path: Path, cli: Callable[..., Result]) -> None:
    assert cli("show", path, state.id, "--at", 2, "--messages").stdout == "[0] user\nRead a.py\n"


def test_messages_show_every_kind_of_block(store: SqliteStore, path: Path, cli: Callable[..., Result]) -> None:
    state = State(messages=[Message("user", (TextBlock("See"), PNG))])
    think(state, RawBlock("acme", {"thinking": "hm"}), READ)
    result(state, READ, (PNG,))
    store.save(state)
    output = cli("show", path, state.id, "--messages").stdout
    assert "See\n(image/png, 8B)\n" in output
    assert '(acme: {"thinking": "hm"})\n' in output
    assert "result of read:\n(image/png, 8B)\n" in output


def test_messages_for_programs_are_json(state: State, path: Path, cli: Callable[..., Result]) -> None:
    messages = json.loads(cli("show", path, state.id, "--messages", "--json").stdout)
    assert messages[0] == {"role": "user", "content": "Read a.py"}
    assert len(messages) == 4


def test_entry_n_is_one_entry_whole(state: State, store: SqliteStore, path: Path, cli: Callable[..., Result]) -> None:
    record = store.read(state.id)
    assert record is not None
    output = cli("show", path, state.id, "--entry", 3).stdout
    assert json.loads(output) == record.entries[3]
    assert output.startswith('{\n  "seq": 3,\n')


def test_there_is_no_entry_behind_the_last(state: State, path: Path, cli: Callable[..., Result]) -> None:
    count = len(state.history)
    result = cli("show", path, state.id, "--entry", count)
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: there is no entry {count}: night-build has {count}, and the first is 0\n",
    )


def test_programs_get_the_entries(state: State, store: SqliteStore, path: Path, cli: Callable[..., Result]) -> None:
    record = store.read(state.id)
    assert record is not None
    assert json.loads(cli("show", path, state.id, "--json").stdout) == record.entries
    lines = cli("show", path, state.id, "--jsonl", "--at", 2).stdout.splitlines()
    assert [json.loads(line) for line in lines] == record.entries[:2]
    assert cli("show", path, state.id, "--csv").stdout.startswith("seq,kind,turn,at,content,")


def test_an_interrupted_turn_is_shown_as_it_is_saved(
    store: SqliteStore, path: Path, cli: Callable[..., Result]
) -> None:
    state = started("Go")
    request(state)
    store.save(state)
    store.close()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    assert cli("show", path, state.id).stdout == f"{state}\n"
    store.close()
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


@pytest.mark.parametrize("options", [[], ["--messages"], ["--entry", "0"], ["--json"], ["--messages", "--jsonl"]])
def test_text_cannot_rewrite_the_screen(
    options: list[str], store: SqliteStore, path: Path, cli: Callable[..., Result]
) -> None:
    state = State()
    state.add_message(Message.user("\x1b[2J\x9b\u202egone\x7f \ud800"))
    store.save(state)
    output = cli("show", path, state.id, *options).stdout
    assert "gone" in output
    assert not set("\x1b\x9b\u202e\x7f") & set(output)


def child_of(parent: State, id: str, *, by: str | None = None) -> State:
    child = State(id=id, messages=[Message.user(f"Task of {id}")])
    run_start(child, id, by or parent.id, READ.id)
    return child


def test_subagents_are_indented_below_the_result_they_worked_on(
    store: SqliteStore, path: Path, cli: Callable[..., Result]
) -> None:
    parent = State(id="parent", messages=[Message.user("Go")])
    think(parent, READ)
    entries(parent, ToolResultEntry(content="ok", call=READ, outcome=DONE, turn=1, child_ids=("child", "gone")))
    child = child_of(parent, "child")
    for state in (parent, child):
        store.save(state)
    lines = cli("show", path, "parent").stdout.splitlines()
    at = lines.index("[turn 1] tool_result read: 2B")
    assert lines[at + 1 : at + 3] == [f"    {line}" for line in str(child).splitlines()]
    assert lines[at + 3] == "    (gone is not in the file)"


def test_a_subagent_that_claims_its_own_parent_as_child_does_not_hang(
    store: SqliteStore, path: Path, cli: Callable[..., Result]
) -> None:
    parent = State(id="parent", messages=[Message.user("Go")])
    think(parent, READ)
    entries(parent, ToolResultEntry(content="ok", call=READ, outcome=DONE, turn=1, child_ids=("parent",)))
    store.save(parent)
    assert cli("show", path, "parent").exit_code == 0
