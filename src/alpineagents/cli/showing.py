"""`alpineagents show`: one run, its entries, or what the model saw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from alpineagents.cli import queries
from alpineagents.cli.files import clear_errors, default_file, reading
from alpineagents.cli.output import colored, format_options, json_text, write_rows
from alpineagents.history.codec_parts import message_data
from alpineagents.history.entries import HistoryEntry, ToolResultEntry
from alpineagents.history.printed import printed
from alpineagents.history.replay import value_at
from alpineagents.history.value import Value
from alpineagents.store import Record, SqliteStore
from alpineagents.store.info import check_version
from alpineagents.store.saving import fold_record
from alpineagents.terminal.text import shown
from alpineagents.values.content import Block, Image, Message, RawBlock, TextBlock, ToolCall
from alpineagents.values.display import format_call, image_text, result_text

FILE_AND_ID = 2
FEW = 5
INDENT = "    "


@click.command("show", short_help="Show one run.")
@click.argument("words", nargs=-1, required=True, metavar="[FILE] ID")
@click.option("--at", type=click.IntRange(min=0), metavar="N", help="As it was after its first N entries.")
@click.option("--messages", is_flag=True, help="What the model would see, message by message.")
@click.option("--entry", type=click.IntRange(min=0), metavar="N", help="One entry whole, as JSON; the first is 0.")
@format_options
def show_command(words: tuple[str, ...], at: int | None, messages: bool, entry: int | None, form: str | None) -> None:
    """Show the run ID in FILE, one line per entry, with its subagents indented.

    The start of an id will do if no other one begins like it. A run that is still going on is shown as far as it is
    saved.

    \b
    Example:
        alpineagents show runs.db night-build
        alpineagents show runs.db night-build --at 12 --messages
    """
    if entry is not None and (messages or at is not None):
        raise click.UsageError("--entry shows one entry by itself: leave --at and --messages out")
    run = SavedRun.found(*file_and_id(words))
    if entry is not None:
        click.echo(json_text(run.entry(entry), indent=2))
    elif messages:
        write_messages(run.value(at), form)
    elif form is not None:
        write_rows(run.record.entries[: len(run.value(at).history)], form)
    else:
        for line in run.lines(at):
            click.echo(shown(line))


def file_and_id(words: tuple[str, ...]) -> tuple[Path, str]:
    """`[FILE] ID`: a single word is the id."""
    if len(words) > FILE_AND_ID:
        raise click.UsageError(f"show takes a file and an id, not {len(words)} words")
    if len(words) == FILE_AND_ID:
        return Path(words[0]), words[1]
    if Path(words[0]).is_file():
        raise click.UsageError(f"{shown(words[0])} is a file: say which run in it. alpineagents list shows them")
    return default_file(), words[0]


@dataclass(frozen=True)
class SavedRun:
    """A State as it is saved; looking at it changes nothing."""

    path: Path
    id: str
    record: Record

    @classmethod
    def found(cls, path: Path, start: str) -> SavedRun:
        """The run whose id this is, or begins like this."""
        with reading(path) as connection:
            ids = [] if connection is None or not start else queries.ids(connection, start, FEW)
        if len(ids) > 1:
            raise click.ClickException(f"several runs begin with {start!r}: {shown(', '.join(ids))}")
        with clear_errors(path):
            record = SqliteStore(path).read(ids[0]) if ids else None
        if record is None:
            raise click.ClickException(f"there is no run {start!r} in {shown(str(path))}: see alpineagents list")
        return cls(path, ids[0], record)

    def entry(self, number: int) -> dict[str, Any]:
        """One entry in its JSON form."""
        count = len(self.record.entries)
        if number >= count:
            raise click.ClickException(f"there is no entry {number}: {self.id} has {count}, and the first is 0")
        return self.record.entries[number]

    def value(self, at: int | None = None) -> Value:
        """What the run was after so many entries, or is now."""
        with clear_errors(self.path):
            check_version(self.id, self.record.info)
            value: Value = fold_record(self.id, self.record.entries)
        count = len(value.history)
        if at is None:
            return value
        if at > count:
            raise click.ClickException(f"{self.id} has fewer entries: --at takes 0 to {count}")
        return value_at(value, at)

    def lines(self, at: int | None = None, above: tuple[str, ...] = ()) -> Iterator[str]:
        """The run as `print(state)` shows it, and below each result the subagents that worked on it."""
        value = self.value(at)
        text = printed(value)
        for index, line in enumerate(text.split("\n") if text else []):
            yield INDENT * len(above) + line
            for child in started_by(value.history[index]) if index < len(value.history) else ():
                yield from self._lines_of_child(child, (*above, self.id))

    def _lines_of_child(self, id: str, above: tuple[str, ...]) -> Iterator[str]:
        with clear_errors(self.path):
            record = None if id in above else SqliteStore(self.path).read(id)
        if record is None:
            yield f"{INDENT * len(above)}({id} is not in the file)"
            return
        yield from SavedRun(self.path, id, record).lines(above=above)


def started_by(entry: HistoryEntry) -> tuple[str, ...]:
    """The subagents that worked on a call, shown at its first result."""
    return entry.child_ids if isinstance(entry, ToolResultEntry) and not entry.late else ()


def write_messages(value: Value, form: str | None) -> None:
    """Print the messages, each under a heading."""
    if form is not None:
        write_rows([message_data(message) for message in value.messages], form)
        return
    for number, message in enumerate(value.messages):
        heading = f"[{number}] {message.role}"
        click.echo(("\n" if number else "") + (click.style(heading, bold=True) if colored() else heading))
        click.echo(shown(message_text(message)))


def message_text(message: Message) -> str:
    """A message as a person reads it."""
    return "\n".join([_block_text(block) for block in message.content])


def _block_text(block: Block) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, Image):
        return image_text(block)
    if isinstance(block, ToolCall):
        return f"tool {format_call(block)}"
    if isinstance(block, RawBlock):
        return f"({block.provider}: {json_text(block.data)})"
    failed = " (error)" if block.is_error else ""
    return f"result of {block.name or block.call_id}{failed}:\n{result_text(block.content)}"
