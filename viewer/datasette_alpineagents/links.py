"""The addresses of our pages. All of them begin with what Datasette says is the address of the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode


class Links:
    """The addresses in one database; `base` is Datasette's own of it, with its `base_url`."""

    def __init__(self, base: str) -> None:
        self.base = base

    def runs(self, **parameters: Any) -> str:
        return self._at("runs", parameters)

    def run(self, state_id: str, **parameters: Any) -> str:
        return self._at(f"runs/{quote(state_id, safe='')}", parameters)

    def entry(self, state_id: str, seq: int) -> str:
        """An entry in its place: it is on the page that has it, and marked there."""
        return f"{self.run(state_id, entry=seq)}#e{seq}"

    def at(self, state_id: str, length: int, **parameters: Any) -> str:
        return self._at(f"runs/{quote(state_id, safe='')}/at/{length}", parameters)

    def payload(self, state_id: str, seq: int, **parameters: Any) -> str:
        """Everything an entry holds, as text."""
        return self._at(f"runs/{quote(state_id, safe='')}/entries/{seq}", parameters)

    def news(self, state_id: str | None = None) -> str:
        """What a page that follows asks."""
        return self._at("runs/news.json" if state_id is None else f"runs/{quote(state_id, safe='')}/news.json", {})

    def tools(self, **parameters: Any) -> str:
        return self._at("tools", parameters)

    def calls(self, **parameters: Any) -> str:
        return self._at("tools/calls", parameters)

    def usage(self, **parameters: Any) -> str:
        return self._at("usage", parameters)

    def compare(self, **parameters: Any) -> str:
        return self._at("compare", parameters)

    def search(self, **parameters: Any) -> str:
        return self._at("search", parameters)

    def blob(self, sha256: str) -> str:
        return self._at(f"blobs/{quote(sha256, safe='')}", {})

    def export(self, state_id: str, form: str) -> str:
        return self._at(f"runs/{quote(state_id, safe='')}/export.{form}", {})

    def _at(self, path: str, parameters: Mapping[str, Any]) -> str:
        query = urlencode({name: value for name, value in parameters.items() if value not in (None, "", False)})
        return f"{self.base}/-/{path}{'?' + query if query else ''}"


def json_of(address: str) -> str:
    """The JSON twin of a page."""
    path, _, query = address.partition("?")
    return f"{path.partition('#')[0]}.json{'?' + query if query else ''}"
