"""After a power cut at any moment the file is whole, and holds everything whose consequence had left the machine."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from durability.power import LOSSES, Disk, everything, nothing, put, some_sectors
from durability.recording import Event, record, recorder
from durability.verdicts import Cut, Recorded, Tally, problems, rows_of

Record = Callable[..., Recorded]

SEED = random.randint(0, 10**6)
SEEDS, CUTS, SECOND_CUTS = 3, 250, 60


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Runs a subject, in an empty folder or on top of what a cut left. The same run is recorded once."""
    place = tmp_path_factory.mktemp("recorded")
    library = recorder(place)

    @cache
    def run(name: str, seed: int = SEED, level: str = "full", on: Cut | None = None) -> Recorded:
        folder, log = place / "folder", place / "log"
        inodes = put(on.content if on is not None else {}, folder)
        content = {name: data for name, data in on.content.items() if not name.endswith("-shm")} if on else {}
        events = record(library, folder, log, name, str(seed), level)
        log.unlink()
        run = Recorded(events, rows_of(folder / "runs.db"), (content, inodes))
        assert run.everything() == {path.name: path.read_bytes() for path in folder.iterdir()}
        return run

    return run


@pytest.fixture
def found(tmp_path: Path) -> Callable[..., list[str]]:
    """What is wrong after each cut of a plan."""
    numbers = iter(range(1_000_000))

    def judge(run: Recorded, plan: Any, chance: random.Random, tally: Tally | None = None, go_on: int = 10) -> Any:
        result: list[str] = []
        tally = tally or Tally()
        for number, cut in enumerate(run.cuts(plan, chance)):
            folder = tmp_path / f"cut{next(numbers)}"
            found = problems(folder, cut, run.rows, tally, go_on=number % go_on == 0)
            if not found:
                shutil.rmtree(folder)
            result += found
        return result

    return judge


def sharpest(run: Recorded, kinds: str = "EM") -> list[tuple[int, Any]]:
    """Right when something left the machine, or right behind a sync, all that was not synced is lost."""
    return [(moment, everything) for moment in run.moments(kinds)]


def promising(run: Recorded, level: str) -> Recorded:
    """At "normal" nothing is promised but a whole file."""
    return run if level == "full" else without(run, lambda event: event.kind == "M")


def without(run: Recorded, dropped: Callable[[Event], bool]) -> Recorded:
    return Recorded([event for event in run.events if not dropped(event)], run.rows, run.base)


def test_a_cut_while_the_first_state_is_saved_leaves_a_new_or_a_whole_file(recorded: Record, found: Any) -> None:
    run, chance = recorded("first"), random.Random(SEED)
    in_order = [(moment, nothing) for moment in range(0, len(run.events), 8)]
    assert found(run, [*sharpest(run), *in_order, *run.random_plan(20, chance)], chance) == [], SEED


def test_a_torn_first_page_is_undone_by_the_journal_beside_it(recorded: Record, found: Any) -> None:
    run, chance = recorded("first"), random.Random(SEED)
    database = next(event.inode for event in run.events if event.data == b"runs.db")
    written = next(
        moment for moment, event in enumerate(run.events, 1) if event.kind == "W" and event.inode == database
    )
    assert found(run, [(written, some_sectors)] * 30, chance, go_on=3) == [], SEED


@pytest.mark.parametrize("name", ["story", "crowd"])
def test_a_cut_loses_nothing_that_something_outside_followed_from(recorded: Record, found: Any, name: str) -> None:
    run, chance = recorded(name), random.Random(SEED)
    sharp = sharpest(run, "M")
    assert len(sharp) > 20
    assert found(run, [*chance.sample(sharp, 14), *run.random_plan(14, chance)], chance) == [], SEED


@pytest.mark.parametrize("name", ["questions", "async_questions"])
def test_a_question_that_writes_no_request_is_sent_when_all_before_it_is_on_the_disk(
    recorded: Record, found: Any, name: str
) -> None:
    run = recorded(name)
    assert found(run, sharpest(run, "M"), random.Random(SEED)) == [], SEED


def test_normal_may_lose_the_last_moments_and_never_the_file(recorded: Record, found: Any) -> None:
    run, chance = recorded("story", level="normal"), random.Random(SEED)
    lost = found(run, chance.sample(sharpest(run, "M"), 8), chance)
    assert lost
    assert all(["were promised" in problem for problem in lost]), SEED
    assert found(promising(run, "normal"), run.random_plan(14, chance), chance) == [], SEED


def test_a_run_on_top_of_a_cut_is_as_safe_as_the_first(recorded: Record, found: Any) -> None:
    run, chance = recorded("story"), random.Random(SEED)
    (cut,) = run.cuts([(chance.choice(run.moments("M")), chance.choice(LOSSES))], chance)
    second = recorded("resume", on=cut)
    sharp = chance.sample(sharpest(second, "M"), 8)
    assert found(second, [*sharp, *second.random_plan(8, chance)], chance) == [], (SEED, str(cut))


def test_the_database_is_written_only_when_its_wal_and_its_journal_are_on_the_disk(recorded: Record) -> None:
    run, disk = recorded("story"), Disk()
    database, writes = None, 0
    for event in run.events:
        if event.kind == "C" and event.data == b"runs.db":
            database = event.inode
        if event.kind == "W" and event.inode == database:
            writes += 1
            assert disk.unsynced("-wal") == disk.unsynced("-journal") == 0
        disk.do(event)
    assert writes > 20


def test_every_sync_before_a_mark_is_needed(recorded: Record, found: Any) -> None:
    run = recorded("first")
    before = 0
    for moment in run.moments("M"):
        rest, marked = run.events[:before], run.events[before:moment]
        unsynced = Recorded([*rest, *[event for event in marked if event.kind != "E"]], run.rows)
        (lost,) = found(unsynced, [(len(unsynced.events), everything)], random.Random(0))
        assert "promised" in lost
        before = moment


def test_a_disk_that_stops_to_sync_is_found_out(recorded: Record, found: Any) -> None:
    run, chance = recorded("story"), random.Random(SEED)
    start = run.moments("M")[0]
    later = [event for event in run.events[start:] if event.kind not in "BEM"]
    lying = Recorded([*run.events[:start], *later], run.rows)
    plan = [(len(lying.events) - chance.randint(0, 50), some_sectors) for _ in range(20)]
    damages = found(lying, plan, chance)
    assert [damage for damage in damages if "promised" not in damage], SEED


@pytest.mark.soak
@pytest.mark.parametrize("level", ["full", "normal"])
@pytest.mark.parametrize("name", ["story", "crowd", "volume"])
def test_thousands_of_cuts_lose_nothing(recorded: Record, found: Any, name: str, level: str) -> None:
    tally = Tally()
    for _ in range(SEEDS):
        seed = random.randint(0, 10**6)
        chance = random.Random(seed)
        run = recorded(name, seed, level)
        assert found(promising(run, level), [*sharpest(run), *run.random_plan(CUTS, chance)], chance, tally) == [], seed
        for cut in run.cuts(run.random_plan(2, chance), chance):
            second = promising(recorded("resume", seed, level, cut), level)
            assert found(second, second.random_plan(SECOND_CUTS, chance), chance, tally) == [], (seed, str(cut))
    print(f"{name}, {level}: {tally}")
