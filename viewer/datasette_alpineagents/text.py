"""Text from a run as a person may safely read it: colours, progress bars, and every invisible character made visible.

Nothing here makes markup. A text becomes pieces, each with the names of the styles it has, and a template writes them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

PREVIEW = 2_000

# Everything without a shape of its own: control characters, bidi marks, embeddings, overrides and isolates
# (https://www.unicode.org/reports/tr9/), zero-width characters, tags, halves of surrogate pairs.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_ESCAPE = re.compile("\x1b\\[([0-9;:]*)([@-~])|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b[@-Z\\\\-_]")
_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_STYLES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_JOINERS = "\u200c\u200d"
_LAST_ASCII = 0x7F


@dataclass(frozen=True)
class Piece:
    """A part of a text: what to show, the names of its styles, and what it stands for when it is not itself."""

    text: str
    styles: str = ""
    title: str = ""


def plain(text: object) -> str:
    """A text for one line or an attribute: what cannot be seen is named, `‹U+202E›`."""
    return _INVISIBLE.sub(lambda found: _named(found[0]), _kept_joiners(str(text)))


def one_line(text: object, length: int = 160) -> str:
    """The same on one line, cut with `…`."""
    start = str(text)[: length * 8]
    line = " ".join(plain(start.replace("\r", " ").replace("\t", " ").replace("\n", " ")).split())
    return line if len(line) <= length and len(start) == len(str(text)) else line[: length - 1] + "…"


def pieces(text: str) -> list[Piece]:
    """Output of a tool: ANSI colours as styles, progress at its last frame, everything invisible named."""
    found: list[Piece] = []
    styles: dict[str, str] = {}
    for part in _parts(last_frames(text)):
        if isinstance(part, str):
            found.extend(_visible(part, " ".join(styles.values())))
        else:
            _style(styles, part)
    return found


def raw_pieces(text: str) -> list[Piece]:
    """The text as it is, escapes included, everything invisible named."""
    return list(_visible(text, ""))


def last_frames(text: str) -> str:
    """What a terminal would show of lines that were overwritten: what stands behind the last carriage return."""
    if "\r" not in text:
        return text
    return "\n".join([_last_frame(line) for line in text.replace("\r\n", "\n").split("\n")])


def _last_frame(line: str) -> str:
    frames = [frame for frame in line.split("\r") if frame]
    return frames[-1] if frames else ""


def _parts(text: str) -> Iterator[str | list[int]]:
    start = 0
    for found in _ESCAPE.finditer(text):
        if found.start() > start:
            yield text[start : found.start()]
        start = found.end()
        if found[2] == "m":
            yield [int(number) if number else 0 for number in re.split("[;:]", found[1])][:64]
    if start < len(text):
        yield text[start:]


def _style(styles: dict[str, str], codes: list[int]) -> None:
    codes = list(codes)
    while codes:
        code = codes.pop(0)
        if code == 0:
            styles.clear()
        elif code in _STYLES:
            styles[_STYLES[code]] = f"aa-a-{_STYLES[code]}"
        elif code == 22:  # noqa: PLR2004  # neither bold nor dim: ECMA-48, 8.3.117
            styles.pop("bold", None)
            styles.pop("dim", None)
        elif code - 20 in _STYLES:
            styles.pop(_STYLES[code - 20], None)
        else:
            _color(styles, code, codes)


def _color(styles: dict[str, str], code: int, rest: list[int]) -> None:
    ground = "bg" if code // 10 in (4, 10) else "fg"
    if code in (38, 48):
        _take_palette(styles, ground, rest)
    elif code in (39, 49):
        styles.pop(ground, None)
    elif code // 10 in (3, 4, 9, 10) and code % 10 < len(_COLORS):
        styles[ground] = f"aa-a-{ground}-{_COLORS[code % 10]}"


def _take_palette(styles: dict[str, str], ground: str, rest: list[int]) -> None:
    """256 colours are shown by the nearest of eight where they name one; true colours as the default."""
    mode = rest.pop(0) if rest else 0
    if mode == 5 and rest:  # noqa: PLR2004  # one number of a palette follows
        number = rest.pop(0)
        if number < 2 * len(_COLORS):
            styles[ground] = f"aa-a-{ground}-{_COLORS[number % len(_COLORS)]}"
    elif mode == 2:  # noqa: PLR2004  # three numbers, red, green and blue, follow
        del rest[:3]


def _visible(text: str, styles: str) -> Iterator[Piece]:
    start, text = 0, _kept_joiners(text)
    for found in _INVISIBLE.finditer(text):
        if found.start() > start:
            yield Piece(_joiners_back(text[start : found.start()]), styles)
        yield Piece(_named(found[0]), f"{styles} aa-ctl".strip(), name_of(found[0]))
        start = found.end()
    if start < len(text):
        yield Piece(_joiners_back(text[start:]), styles)


# Joiners that shape letters or emoji stay; these stand for them while the others are looked for.
_STAND_INS = {"\u200c": "\uf8fe", "\u200d": "\uf8ff"}
_BACK = {value: key for key, value in _STAND_INS.items()}


def _kept_joiners(text: str) -> str:
    if text.isascii() or not any([joiner in text for joiner in _JOINERS]):
        return text
    return re.sub(f"(?<=[^\x00-\x7f])[{_JOINERS}](?=[^\x00-\x7f{_JOINERS}])", lambda found: _STAND_INS[found[0]], text)


def _joiners_back(text: str) -> str:
    return text if text.isascii() else re.sub("[\uf8fe\uf8ff]", lambda found: _BACK[found[0]], text)


def _named(character: str) -> str:
    return f"‹U+{ord(character):04X}›"


def name_of(character: str) -> str:
    """What a character is called."""
    code = ord(character)
    if code <= _LAST_ASCII:
        return _CONTROLS.get(code, "control character")
    return unicodedata.name(character, "invisible character").lower()


_CONTROLS = {
    0: "null",
    7: "bell",
    8: "backspace",
    11: "vertical tab",
    12: "form feed",
    13: "carriage return",
    27: "escape",
}


@dataclass(frozen=True)
class Preview:
    """The start of a text: its pieces, how many lines are not shown, and the bytes of the whole."""

    pieces: list[Piece]
    more_lines: int
    size: int
    cut: bool


def preview(text: str, lines: int, *, size: int | None = None, length: int = PREVIEW) -> Preview:
    """The first lines of a tool's output.

    Args:
        size: The bytes of the whole, when `text` is only its start.
    """
    whole = len(text.encode("utf-8", "surrogatepass")) if size is None else size
    shown = last_frames(text).rstrip("\n")
    rows = shown.split("\n")
    start = "\n".join(rows[:lines])[:length]
    more = max(0, len(rows) - (start.count("\n") + 1))
    return Preview(pieces(start), more, whole, len(start) < len(shown) or size is not None)


@dataclass(frozen=True)
class Passage:
    """Part of a message: words, code set in monospace, or a line break between."""

    text: str
    kind: str = "text"


_FENCE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n(.*?)(?:^\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)


def passages(text: str) -> list[Passage]:
    """A message as it was written: only code fences are set apart, nothing else is read as markup."""
    found: list[Passage] = []
    start = 0
    for fence in _FENCE.finditer(text):
        found.append(Passage(plain_lines(text[start : fence.start()]).strip("\n")))
        found.append(Passage(plain_lines(fence[2]).rstrip("\n"), "code"))
        start = fence.end()
    found.append(Passage(plain_lines(text[start:]).strip("\n")))
    return [passage for passage in found if passage.text]


def plain_lines(text: str) -> str:
    """A text of several lines: as `plain`, but its line breaks are those of any system."""
    return plain(text.replace("\r\n", "\n"))


def cut_text(text: str, length: int) -> tuple[str, bool]:
    """The start of a text, cut between words, and whether something is missing."""
    if len(text) <= length:
        return text, False
    start = text[:length]
    return (start.rpartition(" ")[0] or start) + "…", True
