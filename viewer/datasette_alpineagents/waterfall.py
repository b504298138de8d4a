"""Where the time of a run went: a lane for each turn, with a bar for each wait. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from datasette_alpineagents.queries import Row
from datasette_alpineagents.text import plain
from datasette_alpineagents.words import duration, moment, offset

LANE, ROW = 16.0, 9.0
MOST_LANES = 80
TICKS = 8
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)


@dataclass(frozen=True)
class Span:
    """One bar; `x` and `width` are percents, `y` pixels."""

    x: float
    width: float
    y: float
    style: str
    title: str
    seq: int


@dataclass
class Lane:
    """One turn."""

    number: int
    y: float
    spans: list[Span] = field(default_factory=list[Span])
    label: str = ""


@dataclass(frozen=True)
class Waterfall:
    """The drawing: its lanes, its height, the marks of its axis, and how many lanes were left out."""

    lanes: list[Lane]
    height: float
    ticks: list[tuple[float, str]]
    left_out: int


def waterfall(skeleton: Sequence[Row], outcomes: Mapping[int, Row]) -> Waterfall | None:
    """The drawing of a run.

    Args:
        skeleton: The bones of its entries, in order.
        outcomes: The tool and outcome of each result, by `seq`.
    """
    at = {row["seq"]: row["at"] for row in skeleton}
    waits = [
        wait
        for row, before in zip(skeleton, [None, *skeleton], strict=False)
        if (wait := _wait(row, before, at, outcomes))
    ]
    times = [moment for start, end, *_ in waits for moment in (start, end)]
    if not times:
        return None
    zero, span = min(times), max(max(times) - min(times), 0.001)
    numbers = list(dict.fromkeys([wait[2]["turn"] for wait in waits]))
    shown = set(numbers[-MOST_LANES:])
    lanes: dict[int, Lane] = {}
    ends: dict[int, list[float]] = {}
    y = 0.0
    for start, end, row, style, name in waits:
        if row["turn"] not in shown:
            continue
        if row["turn"] not in lanes:
            y = sum([LANE + ROW * max(0, len(rows) - 1) for rows in ends.values()])
            lanes[row["turn"]] = Lane(row["turn"], y)
            ends[row["turn"]] = []
        lane, rows = lanes[row["turn"]], ends[row["turn"]]
        place = next((index for index, until in enumerate(rows) if until <= start + 0.0005), len(rows))
        rows[place : place + 1] = [end]
        title = f"e{row['seq']} {name}: {duration(end - start)}"
        x, width = 100 * (start - zero) / span, max(0.15, 100 * (end - start) / span)
        lane.spans.append(Span(x, min(width, 100 - x), lane.y + 3 + ROW * place, style, title, row["seq"]))
        if row["seq"] in outcomes and style in ("aa-red", "aa-ochre"):
            lane.label = f"{name} {outcomes[row['seq']]['outcome']}"
    height = sum([LANE + ROW * max(0, len(rows) - 1) for rows in ends.values()])
    return Waterfall(list(lanes.values()), height, _ticks(span), len(numbers) - len(shown))


def _wait(
    row: Row, before: Row | None, at: Mapping[int, str], outcomes: Mapping[int, Row]
) -> tuple[float, float, Row, str, str] | None:
    """What was waited for until this entry: from when, to when, and what it was."""
    kind, closes = row["kind"], row["closes"]
    since = at.get(closes) if closes is not None else None
    style, name = "aa-model", "model"
    if kind == "tool_result":
        found = outcomes.get(row["seq"], {"tool": "?", "outcome": "?", "late": 1})
        if found["late"]:
            return None
        style, name = _STYLES.get(found["outcome"], "aa-tool"), plain(found["tool"])
    elif kind == "human":
        since, style, name = (before or row)["at"], "aa-wait", "person"
    elif kind != "model_reply" and not (kind == "error" and closes is not None):
        return None
    start, end = moment(since), moment(row["at"])
    if start is None or end is None or end < start:
        return None
    return start.timestamp(), end.timestamp(), row, "aa-red" if kind == "error" else style, name


_STYLES = {
    "error": "aa-red",
    "input_error": "aa-red",
    "aborted": "aa-red",
    "denied": "aa-ochre",
    "interrupted": "aa-violet",
    "cancelled": "aa-slate",
}


def _ticks(span: float) -> list[tuple[float, str]]:
    step = next((step for step in _STEPS if span / step <= TICKS), _STEPS[-1])
    count = int(min(span / step, 60)) + 1
    return [(100 * number * step / span, offset(number * step)) for number in range(count)]
