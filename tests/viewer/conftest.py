from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from datasette.app import Datasette
from datasette_alpineagents.compat import IS_1
from viewer.example_runs import write_examples

EXAMPLE = "fix-timedelta-7c2e"


class Site:
    """Datasette with the plugin over some files, asked in this process."""

    def __init__(self, *paths: Path, config: Any = None, **settings: Any) -> None:
        given = {"config" if IS_1 else "metadata": config, **settings}
        self.datasette = Datasette([str(path) for path in paths], **given)

    def get(self, path: str, method: str = "GET") -> Any:
        async def ask() -> Any:
            await self.datasette.invoke_startup()
            return await self.datasette.client.request(method, path)

        return asyncio.run(ask())

    def page(self, path: str) -> str:
        """The text of a page that is there."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text[:500]
        return answer.text

    def data(self, path: str) -> Any:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text[:500]
        assert answer.headers["content-type"].startswith("application/json")
        return answer.json()


def main_of(html: str) -> str:
    """What the plugin wrote, without Datasette's frame around it."""
    return html[html.index("<main") : html.index("</main>")]


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with runs of every kind."""
    return write_examples(tmp_path_factory.mktemp("viewer") / "runs.db")


@pytest.fixture(scope="session")
def site(examples: Path) -> Site:
    return Site(examples)


@pytest.fixture
def serve() -> Callable[..., Site]:
    return Site
