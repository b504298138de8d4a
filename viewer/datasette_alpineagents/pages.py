"""The addresses of the viewer, and the page behind each."""

from __future__ import annotations

from typing import Any

from datasette_alpineagents.frame import View, route
from datasette_alpineagents.run_page import run_page
from datasette_alpineagents.runs_page import runs_page
from datasette_alpineagents.small_pages import blob, news_of_run, news_of_runs, payload
from datasette_alpineagents.step_page import step_page
from datasette_alpineagents.tools_page import calls_page, tools_page

_DB = r"/(?P<database>[^/]+)/-/"
_RUN = _DB + r"runs/(?P<id>[A-Za-z0-9_-]{1,128})"
_JSON = r"(?P<format>\.json)?$"

_VIEWS: list[tuple[str, View]] = [
    (_DB + r"runs/news\.json$", news_of_runs),
    (_DB + "runs" + _JSON, runs_page),
    (_RUN + _JSON, run_page),
    (_RUN + r"/at/(?P<length>\d{1,12})" + _JSON, step_page),
    (_RUN + r"/news\.json$", news_of_run),
    (_RUN + r"/entries/(?P<seq>\d{1,12})" + _JSON, payload),
    (_DB + "tools" + _JSON, tools_page),
    (_DB + "tools/calls" + _JSON, calls_page),
    (_DB + r"blobs/(?P<sha256>[0-9a-f]{64})$", blob),
]


def routes() -> list[tuple[str, Any]]:
    """What `register_routes` gives Datasette."""
    return [(address, route(view)) for address, view in _VIEWS]
