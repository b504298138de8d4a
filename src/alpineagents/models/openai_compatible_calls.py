"""The tool calls of a reply, gathered from the deltas that servers make of them.

A delta belongs to the call that is open at its `index`. But an `id` other than that call's own begins a new call, since
some servers number all calls 0; and without an `index`, so does an id not seen yet, or a name without an id.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Container

from alpineagents.models.wire import Json, args_of, as_dict, as_text
from alpineagents.values.content import ToolCall


class Calls:
    """The calls of one reply, as far as they have come."""

    def __init__(self) -> None:
        self._begun: list[_Call] = []
        self._at: dict[int, _Call] = {}

    def add(self, delta: object) -> None:
        """Take in one item of `tool_calls`."""
        told = as_dict(delta)
        function = as_dict(told.get("function"))
        call_id, name = as_text(told.get("id")), as_text(function.get("name"))
        index = told.get("index")
        call = self._at_index(index, call_id) if type(index) is int else self._without_index(call_id, name)
        call.add(call_id, name, function.get("arguments"))

    def finished(self, taken: Container[str]) -> list[ToolCall]:
        """The calls in order, each with an id of its own.

        Args:
            taken: The ids of the calls that the conversation holds already.
        """
        calls: dict[str, ToolCall] = {}
        for begun in sorted(self._begun, key=lambda call: call.position):  # the sort keeps the order of equals
            if begun.is_empty:
                continue
            call_id = begun.id
            while not call_id or call_id in taken or call_id in calls:
                call_id = f"call_{secrets.token_hex(6)}"
            calls[call_id] = ToolCall(begun.name, begun.args, call_id)
        return list(calls.values())

    def _at_index(self, index: int, call_id: str) -> _Call:
        known = self._at.get(index)
        if known is not None and (not call_id or not known.id or call_id == known.id):
            return known
        call = self._at[index] = self._new(index if known is None else self._last_position)
        return call

    def _without_index(self, call_id: str, name: str) -> _Call:
        if call_id:
            found = next((call for call in reversed(self._begun) if call.id == call_id), None)
            return found or self._new(self._last_position)
        return self._new(self._last_position) if name or not self._begun else self._begun[-1]

    @property
    def _last_position(self) -> int:
        return max((call.position for call in self._begun), default=0)

    def _new(self, position: int) -> _Call:
        call = _Call(position)
        self._begun.append(call)
        return call


class _Call:
    """One call while it arrives."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.id = ""
        self.name = ""
        self._pieces: list[str] = []
        self._value: object = None  # of a server that sends the arguments as a value, not as its text

    def add(self, call_id: str, name: str, arguments: object) -> None:
        repeated = call_id == self.id and bool(call_id) and name == self.name
        self.id = self.id or call_id
        if not repeated:
            self.name += name
        if isinstance(arguments, str):
            self._pieces.append(arguments)
        elif arguments is not None:
            self._value = arguments

    @property
    def is_empty(self) -> bool:
        """Whether the call was announced and nothing came of it."""
        return not (self.id or self.name or self._text)

    @property
    def args(self) -> Json:
        return args_of(self._text)

    @property
    def _text(self) -> str:
        return "".join(self._pieces) if self._value is None else json.dumps(self._value, ensure_ascii=False)
