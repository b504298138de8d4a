"""MCP servers and picks of their tools as settings: what is accepted, what is shown, and that nothing connects."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from runs import agent

from alpineagents import MCP
from alpineagents.mcp.server import Pick
from alpineagents.types import AgentInfo


@pytest.mark.parametrize(
    ("targets", "given"),
    [
        ({}, "none of them"),
        ({"command": "", "url": None}, "none of them"),
        ({"command": "x", "url": "http://x"}, "command and url"),
        ({"url": "http://x", "server": object()}, "url and server"),
    ],
)
def test_there_is_one_way_to_the_server(targets: dict[str, Any], given: str) -> None:
    with pytest.raises(TypeError, match=given):
        MCP(name="demo", **targets)


@pytest.mark.parametrize("name", ["github", "gh-2", "my_server", "a_-b", "7", "A"])
def test_these_are_names(name: str) -> None:
    assert MCP("x", name=name).name == name


@pytest.mark.parametrize(
    "name", [None, "", "a__b", "_x", "x_", "-x", "has space", "dot.name", "x\n", "größe", 7, ["x"], "٣"]
)
def test_these_are_none(name: Any) -> None:
    with pytest.raises(ValueError, match="name"):
        MCP("x", name=name)


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({"url": "http://x", "env": {}}, "env"),
        ({"url": "http://x", "cwd": "/"}, "cwd"),
        ({"command": "x", "headers": {}}, "headers"),
        ({"server": object(), "env": {"A": "b"}}, "env"),
    ],
)
def test_a_setting_needs_what_it_belongs_to(settings: dict[str, Any], missing: str) -> None:
    with pytest.raises(TypeError, match=f"{missing}="):
        MCP(name="demo", **settings)


@pytest.mark.parametrize("command", ["  ", "\t\n", "say 'hi", 'say "hi'])
def test_a_command_that_cannot_be_split_is_refused(command: str) -> None:
    with pytest.raises(ValueError, match="command"):
        MCP(command, name="demo")


def test_the_settings_are_read_back_as_copies() -> None:
    env, headers = {"TOKEN": "secret-token"}, {"Authorization": "Bearer secret"}
    started = MCP("x y", name="demo", env=env, cwd="/", timeout=2.5)
    env["TOKEN"] = "changed"
    assert (started.command, started.url, started.server) == ("x y", None, None)
    assert (started.env, started.headers, started.cwd, started.timeout) == ({"TOKEN": "secret-token"}, None, "/", 2.5)
    asked = MCP(url="http://x", name="demo", headers=headers)
    assert (asked.command, asked.url, asked.headers, asked.env) == (None, "http://x", headers, None)


def test_its_repr_shows_where_it_is_and_no_secret() -> None:
    assert repr(MCP("npx docs", name="docs", env={"TOKEN": "secret"})) == "MCP('npx docs', name='docs')"
    assert repr(MCP(url="http://x", name="d", headers={"A": "secret"})) == "MCP(url='http://x', name='d')"
    assert repr(MCP(server=7, name="d")) == "MCP(server=7, name='d')"


def test_servers_are_told_apart_by_identity() -> None:
    one, other = MCP("x", name="a"), MCP("x", name="a")
    assert one != other
    assert len({one, other}) == 2


def test_nothing_is_loaded_or_started() -> None:
    code = (
        "import sys, threading, alpineagents\n"
        "from alpineagents.testing import FakeModel\n"
        "server = alpineagents.MCP('no-such-program', name='x')\n"
        "alpineagents.Agent(FakeModel([]), tools=[server, server.search])\n"
        "print('mcp' in sys.modules, threading.active_count())"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False 1\n"
    )


# Picks


def test_a_tool_is_picked_by_attribute_or_by_item() -> None:
    server = MCP("x", name="demo")
    assert server.search == server["search"]
    assert hash(server.search) == hash(server["search"])
    pick: Any = server["search.code"]
    assert (pick.server, pick.tool_name, pick.name) == (server, "search.code", "demo__search_code")
    assert (repr(pick), repr(server.search)) == ("demo.search.code", "demo.search")


@pytest.mark.parametrize(("name", "shown"), [("a b/ü.c", "demo__a_b___c"), ("a-b_C9", "demo__a-b_C9"), ("", "demo__")])
def test_the_model_sees_a_name_that_any_tool_may_have(name: str, shown: str) -> None:
    assert MCP("x", name="demo")[name].name == shown


def test_picks_of_other_servers_or_tools_are_others() -> None:
    server = MCP("x", name="demo")
    assert server.a != server.b
    assert server.a != MCP("x", name="demo").a
    assert server.a != "demo.a"


@pytest.mark.parametrize("name", ["_private", "__len__x"])
def test_a_name_with_an_underscore_in_front_is_picked_by_item(name: str) -> None:
    server = MCP("x", name="demo")
    with pytest.raises(AttributeError, match=rf"server\['{name}'\]"):
        getattr(server, name)
    assert isinstance(server[name], Pick)


def test_names_of_settings_are_picked_by_item() -> None:
    server = MCP("x", name="demo")
    assert (server.name, server["name"].tool_name) == ("demo", "name")


def test_a_pick_is_a_text() -> None:
    with pytest.raises(TypeError, match="by its name"):
        MCP("x", name="demo")[7]  # type: ignore[index]


# In an Agent that is not connected


def test_two_servers_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two MCP servers have the name 'demo'"):
        agent(tools=[MCP("x", name="demo"), MCP("y", name="demo").a])


def test_a_server_and_its_picks_may_be_repeated() -> None:
    server = MCP("x", name="demo")
    agent(tools=[server, server.a, server, server.a])
    agent(tools=[server])


def test_the_agent_shows_what_it_was_given() -> None:
    server, other = MCP("x", name="demo"), MCP("y", name="abc")
    made = agent(tools=[server.a, other])
    assert list(made.tools) == list(made.copy(system="x").tools) == [server.a, other]
    assert "MCP('x', name='demo')" in repr(made)
    assert dict(made.tool_map) == {}


def test_a_missing_name_tells_of_servers_that_are_not_connected() -> None:
    tools = agent(tools=[MCP("x", name="demo"), MCP("y", name="abc")]).tool_map
    assert "demo__a" not in tools
    assert tools.get("demo__a") is None
    with pytest.raises(KeyError, match=r"abc, demo[\s\S]*with agent:"):
        tools["demo__a"]
    with pytest.raises(KeyError) as raised:
        agent().tool_map["x"]
    assert "MCP" not in str(raised.value)


def test_the_record_names_the_servers_and_no_tools_of_them() -> None:
    made = agent(tools=[MCP("x", name="demo").a, MCP("y", name="abc")])
    info = made._info()
    assert isinstance(info, AgentInfo)
    assert (info.mcp_servers, info.tools) == (("abc", "demo"), ())
