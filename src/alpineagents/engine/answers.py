"""What `ask` may ask for: the question that says so, the answer in a reply's text, and its form in the history."""

from __future__ import annotations

import json
import re
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from alpineagents.errors import error_text, explain, shown
from alpineagents.values.frozen import answer_form, frozen_json

_NO_TYPES = (str, bytes, int, float, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_PROBLEMS = 20
_PROBLEM_LENGTH = 300
_FORMAT = (
    "Answer with one JSON value and nothing else: no other text, no code fence. It must be valid for this JSON Schema:"
)


class Unfit(ValueError):
    """A reply does not hold an answer of the type asked for; the message says to the model why."""


class AnswerType:
    """A type that a model can be asked for.

    Raises:
        TypeError: Pydantic can build no schema for it.
    """

    def __init__(self, returns: Any) -> None:
        self.returns = returns
        self._checked = None if returns is str else _checked(returns)

    def question(self, prompt: str) -> str:
        """The prompt, and what form the answer has to have."""
        return prompt if self._checked is None else f"{prompt}\n\n{_FORMAT}\n{self._checked.schema}"

    def read(self, text: str) -> Any:
        """The answer in a reply's text.

        Raises:
            Unfit: There is none.
        """
        if not text.strip():
            raise Unfit("the reply was empty")
        if self._checked is None:
            return text.strip()
        found = json_in(text)
        if found is None:
            raise Unfit("no JSON was found in the reply")
        try:
            return self._checked.adapter.validate_json(found)
        except self._checked.invalid as error:
            raise Unfit(_problems(error)) from error

    def form(self, answer: Any) -> Any:
        """The answer as history keeps it."""
        return recorded_form(answer, self.returns)

    def __repr__(self) -> str:
        return self.returns.__name__ if isinstance(self.returns, type) else shown(self.returns)


def recorded_form(answer: Any, returns: Any) -> Any:
    """An answer as frozen JSON; what neither it nor its type can write as JSON is kept as its `repr`.

    An answer that was paid for is never lost, so this raises for no value.
    """
    try:
        return answer_form(answer, "answer")
    except Exception:  # besides TypeError whatever the conversion of somebody's class raises
        pass
    try:
        form = _checked(returns).adapter.dump_python(answer, mode="json", warnings="error")
        return frozen_json(form, "answer")
    except Exception:
        return shown(answer, sys.maxsize)


class _Checked(NamedTuple):
    """Pydantic's part: what reads and writes the type, its schema as JSON, and the exception for what does not fit."""

    adapter: Any
    schema: str
    invalid: type[Exception]


def _checked(returns: Any) -> _Checked:
    """The one place that needs Pydantic, which is slow to load."""
    import pydantic
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        # A default without a JSON form is no mistake here: it is left out.
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  # as the base has it

    if returns is None or isinstance(returns, _NO_TYPES):
        raise TypeError(_no_answer_type(returns))
    try:
        adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(returns)
        schema = adapter.json_schema(schema_generator=Generator)
        return _Checked(adapter, json.dumps(schema, ensure_ascii=False), pydantic.ValidationError)
    except Exception as error:
        raise TypeError(_no_answer_type(returns, f": {error_text(error).splitlines()[0]}")) from error


def _no_answer_type(returns: object, reason: str = "") -> str:
    return explain(
        f"ask cannot return {shown(returns)}: it is no type that has a JSON Schema{reason}",
        "ask for str, a dataclass, a Pydantic model, or another type such as int, list[str] or Literal[...]",
        'agent.ask(state, "Which files matter?", returns=list[str])',
    )


def _problems(invalid: Any) -> str:
    """All that is wrong, on one line."""
    found = invalid.errors(include_url=False, include_context=False, include_input=False)
    items = [f"{'.'.join([str(step) for step in problem['loc']]) or 'answer'}: {problem['msg']}" for problem in found]
    texts = [item if len(item) <= _PROBLEM_LENGTH else f"{item[:_PROBLEM_LENGTH]}…" for item in items[:_PROBLEMS]]
    if len(items) > _PROBLEMS:
        texts.append(f"and {len(items) - _PROBLEMS} more")
    return "; ".join(texts)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_SPACE = re.compile(r"[ \t\r\n]*")
# A fence opens a line, or ends one (with its language): in a JSON string it can do neither.
_FENCE = re.compile(r"^[ \t>]*(`{3,}+|~{3,}+)|(?<!`)(`{3,}+)(?=[ \t]*+[\w+.#-]*+[ \t]*+\r?\n)", re.MULTILINE)
_LANGUAGE = re.compile(r"[ \t]*+[\w+.#-]*+")
_REST_OF_LINE = re.compile(r"[^\n]*+")
_BRACKET = re.compile(r"[{\[]")


def json_in(text: str) -> str | None:
    """The JSON in a reply: all of it, what the first code fence holds, or the first `{...}` or `[...]` that is JSON."""
    text = text.strip()
    try:
        if _end_of_json(text, 0) == len(text):
            return text
        return _in_fence(text) or _bracketed(text, 0, len(text))
    except RecursionError:  # nested too deeply for any reader
        return None


def _end_of_json(text: str, start: int) -> int:
    """Where the JSON value that starts here ends; -1 if there is none."""
    try:
        return _DECODER.raw_decode(text, _SPACE.match(text, start).end())[1]  # type: ignore[union-attr]  # matches always
    except ValueError:
        return -1


def _in_fence(text: str) -> str | None:
    fence = _FENCE.search(text)
    if fence is None:
        return None
    mark, start = fence[1] or fence[2], fence.end()
    for begin in _starts_inside(text, start):
        end = _end_of_json(text, begin)
        behind = text[end:].lstrip()
        if end >= 0 and (not behind or behind.startswith(mark)):
            return text[begin:end].strip()
    closing = re.compile(rf"^[ \t>]*{mark}", re.MULTILINE).search(text, start)
    return _bracketed(text, start, len(text) if closing is None else closing.start())


def _starts_inside(text: str, start: int) -> Iterator[int]:
    """Where the content of a fence may start: at once, behind the language, or on the next line."""
    yield start
    for opening in (_LANGUAGE, _REST_OF_LINE):
        found = opening.match(text, start)
        if found is not None:
            yield found.end()


def _bracketed(text: str, start: int, stop: int) -> str | None:
    for bracket in _BRACKET.finditer(text, start, stop):
        end = _end_of_json(text, bracket.start())
        if 0 <= end <= stop:
            return text[bracket.start() : end]
    return None
