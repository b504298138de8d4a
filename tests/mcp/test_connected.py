"""Agents that use the tools of real MCP servers, as processes and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import Heard, agent, call, fake, started, story, written

from alpineagents import MCP, Image, MCPConnectionError, MCPTool, State, tool
from alpineagents.permissions import AllowByReadOnly
from alpineagents.types import TextBlock, ToolResultEntry

SERVER = Path(__file__).parent / "demo_server.py"
COMMAND = f"{sys.executable} {SERVER}"
PATIENCE_S = 20

Act = Callable[..., Any]

pytestmark = pytest.mark.timeout(120)


def server(**settings: Any) -> MCP:
    return MCP(**{"command": COMMAND, "name": "shelf", "timeout": PATIENCE_S, **settings})


@pytest.fixture(scope="module")
def shared() -> Iterator[MCP]:
    """A server that stays connected for all tests of this file."""
    made = server()
    with agent(tools=[made]):
        yield made


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(SERVER), "http", str(port)], stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait()


def results(state: State) -> list[ToolResultEntry]:
    return [entry for entry in state.history if isinstance(entry, ToolResultEntry)]


def used(act: Act, made: MCP, name: str, /, **args: Any) -> ToolResultEntry:
    """What became of one call."""
    state = started()
    act(agent(call(f"{made.name}__{name}", "c1", **args), "ok", tools=[made]), "run", state)
    (result,) = results(state)
    return result


# Calls and results


def test_a_call_goes_to_the_server_under_its_own_name(act: Act, shared: MCP) -> None:
    result = used(act, shared, "stock_level", sku="bolt")
    assert (result.call.name, result.outcome, result.content) == ("shelf__stock_level", "done", "40")


def test_the_same_over_http(act: Act, url: str) -> None:
    made = MCP(url=url, name="shelf", timeout=PATIENCE_S)
    assert used(act, made, "add", a=1, b=2).content == "3"


def test_headers_are_sent_with_the_call(act: Act, url: str) -> None:
    made = MCP(url=url, name="shelf", headers={"X-Plot": "seven"}, timeout=PATIENCE_S)
    assert used(act, made, "header", name="x-plot").content == "seven"


def test_a_server_in_this_process_needs_neither(act: Act) -> None:
    spec = importlib.util.spec_from_file_location("demo_server", SERVER)  # `mcp` is the package of the client
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(inside := importlib.util.module_from_spec(spec))
    assert used(act, MCP(server=inside.server, name="shelf", timeout=PATIENCE_S), "add", a=1, b=2).content == "3"


@pytest.mark.parametrize(
    ("what", "content"),
    [
        ("nothing", "(done)"),
        ("blank", "(done)"),
        ("texts", "a\nb"),
        ("image", (TextBlock("a\nb"), Image(b"\x89PNG\r\n\x1a\n0000", "image/png"), TextBlock("c"))),
        ("tiff", "(image image/tiff not shown: this image type is not supported)"),
        ("broken", "(image image/png not shown: this image type is not supported)"),
        ("audio", "(audio audio/wav not shown: this audio type is not supported)"),
        ("resource", "inside\n(resource file:///b: None)\n(resource file:///c: x/y)"),
        ("link", "(resource link: file:///a)"),
    ],
)
def test_each_kind_of_block_is_shown(act: Act, shared: MCP, what: str, content: Any) -> None:
    result = used(act, shared, "show", what=what)
    assert (result.outcome, result.content) == ("done", content)


@pytest.mark.parametrize(("what", "content"), [("nothing", '{"größe": 7}'), ("texts", "a\nb")])
def test_structured_content_counts_when_there_is_no_other(act: Act, shared: MCP, what: str, content: str) -> None:
    assert used(act, shared, "show", what=what, structured=True).content == content


@pytest.mark.parametrize(
    ("what", "structured", "content"),
    [
        ("texts", True, "a\nb"),
        ("image", False, "a\nb\n(image/png image)\nc"),
        ("nothing", True, '{"größe": 7}'),
        ("nothing", False, "(MCP server 'shelf' reported an error without a message)"),
    ],
)
def test_an_error_is_a_text_and_the_run_goes_on(
    act: Act, shared: MCP, what: str, structured: bool, content: str
) -> None:
    result = used(act, shared, "show", what=what, structured=structured, is_error=True)
    assert (result.outcome, result.content) == ("error", content)


def test_arguments_that_are_missing_are_named_without_asking(act: Act, shared: MCP) -> None:
    result = used(act, shared, "add")
    assert (result.outcome, result.content) == ("input_error", "(input error: missing required arguments: a, b)")
    assert "validation error" in str(used(act, shared, "add", a="x", b=2).content)


def test_a_call_that_takes_too_long_is_an_error_and_the_connection_stays(act: Act) -> None:
    made = server(timeout=3)
    state = started()
    act(agent(call("shelf__slow", "c1"), call("shelf__add", "c2", a=1, b=2), "ok", tools=[made]), "run", state)
    slow, add = results(state)
    assert slow.outcome == "error"
    assert str(slow.content).startswith("(error from MCP server 'shelf': MCPError: ")
    assert add.content == "3"


# Tools


def test_the_tools_are_there_while_they_are_connected(act: Act) -> None:
    made = agent(tools=[server()])
    assert list(made.tool_map) == []
    with made:
        inside = made.tool_map
        assert list(inside)[:2] == ["shelf__stock_level", "shelf__add"]
    assert list(made.tool_map) == []
    assert "shelf__add" in inside


def test_they_describe_themselves(shared: MCP) -> None:
    with agent(tools=[shared]) as made:
        level, add = made.tool_map["shelf__stock_level"], made.tool_map["shelf__add"]
    assert isinstance(level, MCPTool)
    assert repr(level) == "MCPTool('shelf__stock_level')"
    assert (level.server, level.remote_name, level.description) == (shared, "stock.level", "Pieces on the shelf")
    assert (level.parallel, level.is_async) == (True, True)
    assert level.input_schema["required"] == ["sku"]
    assert (level.read_only, level.destructive, level.idempotent, level.open_world) == (True, False, True, True)
    assert (add.read_only, add.destructive, add.idempotent, add.open_world) == (False, False, True, False)
    assert level.hints_for({}) == level.hints_for({"sku": "x"})


@pytest.mark.parametrize(("trusting", "outcome"), [(False, "denied"), (True, "done")])
@pytest.mark.filterwarnings("ignore::alpineagents.PermissionWarning")
def test_their_hints_are_believed_only_when_told_to(act: Act, shared: MCP, trusting: bool, outcome: str) -> None:
    state = started()
    asked = call("shelf__stock_level", "c1", sku="bolt")
    act(agent(asked, "ok", tools=[shared], permissions=[AllowByReadOnly(trust_mcp=trusting)]), "run", state)
    assert results(state)[0].outcome == outcome


@tool
def own(a: int) -> int:
    """Own."""
    return a


def shown(act: Act, tools: list[Any], chosen: Callable[[Any], Any] = lambda made: None) -> list[str]:
    """The tools of a request, which may be chosen from the connected Agent."""
    made = agent("ok", tools=tools)
    with made:
        act(made, "think", started(), tools=chosen(made))
    return [spec.name for spec in fake(made).requests[0].tools]


def test_the_agents_own_tools_come_first_and_picks_in_the_order_of_the_server(act: Act, shared: MCP) -> None:
    assert shown(act, [shared.add, own, shared["stock.level"]]) == ["own", "shelf__stock_level", "shelf__add"]
    assert shown(act, [shared.add, shared])[1:3] == ["shelf__add", "shelf__show"]


def test_one_request_can_show_some_of_them(act: Act, shared: MCP) -> None:
    tools = [own, shared]
    assert shown(act, tools, lambda made: [shared.add, own, shared.add]) == ["own", "shelf__add"]
    assert len(shown(act, tools, lambda made: [shared])) == 7
    assert shown(act, tools, lambda made: [made.tool_map["shelf__add"]]) == ["shelf__add"]
    assert shown(act, [shared.add], lambda made: [shared]) == ["shelf__add"]


def test_what_is_not_the_agents_cannot_be_shown(act: Act, shared: MCP) -> None:
    with agent(tools=[shared]) as other:
        foreign = other.tool_map["shelf__add"]
        for item in (shared.die, server(), foreign):
            with pytest.raises(ValueError, match="not one of this Agent's tools"):
                shown(act, [shared.add], lambda made, item=item: [item])


def test_a_connected_tool_is_no_item_of_tools(shared: MCP) -> None:
    with agent(tools=[shared]) as made:
        connected = made.tool_map["shelf__stock_level"]
    with pytest.raises(TypeError, match=r"shelf\['stock.level'\]"):
        agent(tools=[connected])


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (lambda made: [made.nothing, made.add], r"no tool 'nothing'[\s\S]*add, die"),
        (lambda made: [made["stock_level"]], "no tool 'stock_level'"),
        (lambda made: [made.add, own.copy(name="shelf__add")], "two tools have the name 'shelf__add'"),
    ],
)
def test_a_mistake_that_shows_when_connected_ends_the_run(act: Act, shared: MCP, tools: Any, message: str) -> None:
    state = started()
    made = agent("ok", tools=tools(shared))
    with pytest.raises(ValueError, match=message):
        act(made, "run", state)
    assert [line.partition(":")[0] for line in story(state)[-2:]] == ["run_start", "error"]
    assert fake(made).requests == []


def test_a_name_that_is_too_long_ends_the_run(act: Act) -> None:
    made = server(name="a" * 59)
    with pytest.raises(ValueError, match="shorter name="):
        act(agent("ok", tools=[made]), "run", started())
    assert act(agent("ok", tools=[made.add]), "run", started()) == "ok"


# Connecting


def test_a_run_connects_between_its_start_and_its_loop_and_disconnects_before_its_end(act: Act) -> None:
    seen: list[Any] = []
    made = agent("ok", tools=[server()])

    class Looking(Heard):
        def hear(self, name: str, state: State, text: str = "") -> None:
            seen.append((name, len(made.tool_map)))

    made = made.copy(reporter=Looking())
    act(made, "run", started())
    assert [(name, bool(count)) for name, count in seen[-5:]] == [
        ("run_start", False),
        ("think_start", True),
        ("text", True),
        ("think_end", True),
        ("run_end", False),
    ]


def test_it_gets_its_own_environment_and_folder(act: Act, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPINE_SECRET", "hunter2")
    made = server(env={"ALPINE_MARK": "here"}, cwd=str(tmp_path))
    state = started()
    names = [call("shelf__environment", name, name=name) for name in ("ALPINE_MARK", "ALPINE_SECRET")]
    act(agent(names, "ok", tools=[made]), "run", state)
    assert {entry.call.id: entry.content for entry in results(state)} == {
        "ALPINE_MARK": f"here {tmp_path}",
        "ALPINE_SECRET": f"None {tmp_path}",
    }


def processes() -> int:
    """How many servers are children of this process."""
    found = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # it has just ended
            mine = f"\nPPid:\t{os.getpid()}\n" in status.read_text()
            found += mine and b"demo_server" in (status.parent / "cmdline").read_bytes()
    return found


def test_one_server_has_one_connection_for_all_who_need_it(act: Act) -> None:
    made = server()
    before = processes()
    with agent(tools=[made]) as outer, agent(tools=[made]), outer:
        assert processes() == before + 1
        act(agent("ok", tools=[made]), "run", started())
        assert processes() == before + 1
    assert processes() == before


def test_outside_of_runs_it_is_connected_at_the_first_use_and_stays(act: Act) -> None:
    made = agent("a", "b", tools=[server()])
    before = processes()
    act(made, "think", started())
    assert "shelf__add" in made.tool_map
    act(made, "ask", started("1"), "What?")
    assert processes() == before + 1
    complete_leave(made)


def complete_leave(made: Any) -> None:
    """End what would stay until the process ends."""
    for answer in made._toolbox.servers._leave(made._toolbox.servers):
        answer.result(PATIENCE_S)


def test_a_subagent_connects_its_own(act: Act) -> None:
    made = server()
    below = agent(call("shelf__add", "c1", a=1, b=2), "three", tools=[made], name="adder", description="Adds")
    state = started()
    assert act(agent(call("adder", "t1", prompt="1 + 2"), "ok", tools=[below]), "run", state) == "ok"
    assert results(state)[0].content == "three"


def test_concurrent_runs_share_it(shared: MCP) -> None:
    async def main() -> list[Any]:
        made = [agent(call("shelf__add", "c1", a=n, b=1), "ok", tools=[shared]) for n in range(10)]
        states = [started() for _ in made]
        await asyncio.gather(*[each.arun(state) for each, state in zip(made, states, strict=True)])
        return [results(state)[0].content for state in states]

    assert asyncio.run(main()) == [str(n + 1) for n in range(10)]


# Failures


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"command": "/no/such/program"}, "FileNotFoundError"),
        ({"command": "true"}, "Connection closed"),
        ({"command": None, "url": "http://127.0.0.1:9/mcp"}, "ConnectError"),
        ({"timeout": 0.2, "env": {"ALPINE_SLOW_START": "5"}}, "longer than 0.2 s"),
    ],
)
def test_a_server_that_cannot_be_connected_ends_the_run(act: Act, settings: dict[str, Any], reason: str) -> None:
    state = started()
    made = agent("ok", tools=[server(**settings)])
    with pytest.raises(MCPConnectionError, match=f"'shelf'[\\s\\S]*{reason}"):
        act(made, "run", state)
    assert [line.partition(":")[0] for line in story(state)[-2:]] == ["run_start", "error"]
    assert fake(made).requests == []


def test_what_a_program_wrote_before_it_failed_is_told_without_its_secrets(act: Act) -> None:
    program = "import os, sys; sys.stderr.write('no good: ' + os.environ['TOKEN']); sys.exit(1)"
    made = server(command=f'{sys.executable} -c "{program}"', env={"TOKEN": "secret-token"})
    with pytest.raises(MCPConnectionError, match=r"no good: \*\*\*") as raised:
        act(agent("ok", tools=[made]), "run", started())
    assert "secret-token" not in str(raised.value)


def test_of_several_servers_none_stays_connected_when_one_fails(act: Act) -> None:
    before = processes()
    with pytest.raises(MCPConnectionError):
        act(agent("ok", tools=[server(), server(name="b", command="/no/such")]), "run", started())
    assert processes() == before


def test_without_the_package_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['mcp'] = None\n"
        "from alpineagents import MCP, Agent\n"
        "from alpineagents.testing import FakeModel\n"
        "try:\n    Agent(FakeModel(['ok']), tools=[MCP('x', name='x')], reporter=None).run('Go')\n"
        "except Exception as error:\n    print(type(error).__name__, type(error.__cause__).__name__, error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("MCPConnectionError ")
    assert 'pip install "alpineagents[mcp]"' in said


def test_a_server_that_dies_ends_the_run_and_the_next_block_connects_again(act: Act) -> None:
    made = server()
    deadly = agent(call("shelf__die", "c1"), "x", tools=[made])
    with deadly:
        first, second = started("1"), started("2")
        with pytest.raises(MCPConnectionError, match="broke"):
            act(deadly, "run", first)
        with pytest.raises(MCPConnectionError, match="not connected: MCPError"):
            act(agent(call("shelf__add", "c1", a=1, b=2), "x", tools=[made]), "run", second)
        for state in (first, second):
            assert results(state)[0].outcome == "aborted"
    assert used(act, made, "add", a=1, b=2).content == "3"


def test_the_same_over_http_when_the_process_is_gone(act: Act) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(SERVER), "http", str(port)], stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        time.sleep(0.05)
    made = MCP(url=f"http://127.0.0.1:{port}/mcp", name="shelf", timeout=PATIENCE_S)
    try:
        state = started()
        with pytest.raises(MCPConnectionError, match="broke"):
            act(agent(call("shelf__die", "c1"), "x", tools=[made]), "run", state)
        assert results(state)[0].outcome == "aborted"
    finally:
        process.kill()
        process.wait()


# Interrupts


def test_ctrl_c_while_connecting_ends_the_run_at_once() -> None:
    made = agent("ok", tools=[server(env={"ALPINE_SLOW_START": "20"}, timeout=None)])
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        made.run(started())
    assert time.monotonic() - before < 3


def test_cancelling_one_run_does_not_disturb_another_that_waits_for_the_same_server() -> None:
    made = server(env={"ALPINE_SLOW_START": "0.7"})

    async def main() -> tuple[Any, Any]:
        first = asyncio.create_task(agent("a", tools=[made]).arun(started("1")))
        second = asyncio.create_task(agent("b", tools=[made]).arun(started("2")))
        await asyncio.sleep(0.3)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return None, await second

    assert asyncio.run(main()) == (None, "b")


@pytest.mark.parametrize("how", ["cancel", "ctrl_c"])
def test_an_interrupt_cancels_the_request_to_the_server(how: str, tmp_path: Path) -> None:
    touched = tmp_path / "cancelled"
    made = server(env={"ALPINE_TOUCH": str(touched)})
    asking = agent(call("shelf__slow", "c1"), "ok", tools=[made])
    with agent(tools=[made]):  # so that the server outlives the run
        if how == "ctrl_c":
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                asking.run(started())
        else:
            asyncio.run(cancelled_soon(asking))
        until = time.monotonic() + 10
        while not touched.exists() and time.monotonic() < until:
            time.sleep(0.02)
        assert touched.exists()


async def cancelled_soon(asking: Any) -> None:
    task = asyncio.create_task(asking.arun(started()))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_failed_run_disconnects_like_any_other(act: Act) -> None:
    before = processes()

    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        act(agent("x", tools=[server()], loop=written(act, body)), "run", started())
    assert processes() == before
