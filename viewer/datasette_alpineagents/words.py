"""Numbers, times and money as a person reads them. Pure: the time now is given."""

from __future__ import annotations

from datetime import UTC, datetime

UNKNOWN = "unknown"
MINUTE, HOUR, DAY, WEEK = 60, 3_600, 86_400, 604_800
CENT, SMALL = 0.01, 10.0
KB, MB = 1_000, 1_000_000


def moment(text: str | None) -> datetime | None:
    """A time of the file, or `None` where there is none or it is damaged."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Seconds from one time of the file to another."""
    first, last = moment(start), moment(end)
    return None if first is None or last is None else (last - first).total_seconds()


def count(number: int | None) -> str:
    """A whole number with thousands separators."""
    return UNKNOWN if number is None else f"{number:,}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 call`, `12 calls`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def money(cost: float | None) -> str:
    """Dollars: more digits for small sums, so that the sum of a table can be followed."""
    if cost is None:
        return UNKNOWN
    if cost == 0:
        return "$0"
    digits = 4 if abs(cost) < 1 else 3 if abs(cost) < SMALL else 2
    return f"{'−' if cost < 0 else ''}${abs(cost):,.{digits}f}"


def size(number: int | None) -> str:
    """Bytes."""
    if number is None:
        return UNKNOWN
    if number < KB:
        return f"{number} B"
    return f"{number / KB:.1f} kB" if number < MB else f"{number / MB:,.1f} MB"


def duration(seconds: float | None) -> str:  # noqa: PLR0911  # one for each unit
    """`41 ms`, `8.9 s`, `1m 52s`, `2h 05m`, `3d 4h`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0:
        return f"−{duration(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE}m {whole % MINUTE:02}s"
    if whole < DAY:
        return f"{whole // HOUR}h {whole % HOUR // MINUTE:02}m"
    return f"{whole // DAY}d {whole % DAY // HOUR}h"


def offset(seconds: float | None) -> str:
    """Time since the start: `+0:32`, `+1:04:09`."""
    if seconds is None:
        return "?"
    sign, whole = ("−", int(-seconds)) if seconds < 0 else ("+", int(seconds))
    minutes, rest = divmod(whole, MINUTE)
    if minutes < MINUTE:
        return f"{sign}{minutes}:{rest:02}"
    return f"{sign}{minutes // 60}:{minutes % 60:02}:{rest:02}"


def ago(text: str | None, now: datetime) -> str:  # noqa: PLR0911  # one for each unit
    """How long ago a time of the file was, in words."""
    then = moment(text)
    if then is None:
        return UNKNOWN
    seconds = (now - then).total_seconds()
    if seconds < -MINUTE:
        return "in the future"
    if seconds < MINUTE:
        return f"{max(0, int(seconds))} s ago"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min ago"
    if seconds < DAY:
        return f"{int(seconds // HOUR)} h ago"
    days = (now.date() - then.date()).days
    if days <= 1:
        return "yesterday"
    return f"{days} days ago" if seconds < 2 * WEEK else f"{then:%-d %b %Y}"


def age(seconds: float) -> str:
    """How long something has lasted until now: `14 s`, `23 min`."""
    if seconds < MINUTE:
        return f"{max(0, int(seconds))} s"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min"
    return duration(seconds)


def exact(text: str | None) -> str:
    """A time of the file to the millisecond, in UTC."""
    then = moment(text)
    if then is None:
        return str(text) if text else UNKNOWN
    then = then.astimezone(UTC)
    return f"{then:%Y-%m-%d %H:%M:%S}.{then.microsecond // 1000:03} UTC"


def percent(part: float, whole: float) -> str:
    """`7.6%`; nothing of nothing is 0%."""
    return f"{100 * part / whole:.1f}%" if whole else "0.0%"


def day_text(day: str) -> str:
    """`22 Nov` of `2026-11-22`."""
    try:
        return f"{datetime.fromisoformat(day):%-d %b}"
    except ValueError:
        return day
