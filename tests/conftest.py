"""What every test runs under: no network, no database of the developer's, reproducible examples; and `act`."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from strict import refusals

from alpineagents.testing import FakeModel
from alpineagents.types import Request

settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

os.environ.pop("ALPINEAGENTS_DB", None)  # an Agent without a store would record there


def is_loopback(host: str | bytes | None) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:  # a name that would have to be looked up
        return False


def block_network(event: str, args: tuple[Any, ...]) -> None:
    """An audit hook, since every way out of the process passes it: https://docs.python.org/3/library/audit_events.html"""
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = args[1]
        host = address[0] if isinstance(address, tuple) else None  # a Unix socket has a path, a connected one None
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = args[0]
    else:
        return
    if not is_loopback(host):
        pytest.fail(f"the network is blocked in tests: {event} to {host!r}")  # no `except Exception` can hide it


sys.addaudithook(block_network)


@pytest.fixture(autouse=True)
def strict_provider(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test fails that has a `FakeModel` asked what a real provider would refuse, unless it says it does."""
    refused: list[str] = []
    counted = FakeModel.count_tokens

    def watched(model: FakeModel, asked: Request) -> int:
        refused.extend(refusals(asked))
        return counted(model, asked)

    monkeypatch.setattr(FakeModel, "count_tokens", watched)
    yield
    assert not refused or request.node.get_closest_marker("refused_by_providers")


@pytest.fixture(params=["sync", "async"])
def act(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Runs a test with each half of a pair: `act(agent, "think", state)` is `agent.think(state)`, then `athink`."""

    def call(target: object, method: str, /, *args: Any, **kwargs: Any) -> Any:
        if request.param == "sync":
            return getattr(target, method)(*args, **kwargs)
        return asyncio.run(getattr(target, f"a{method}")(*args, **kwargs))

    return call
