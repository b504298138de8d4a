"""A tool made of a function: calling it, binding it, copying it, its exceptions and its hints."""

from __future__ import annotations

import abc
import asyncio
import copy
import functools
import inspect
import pickle
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Union

import pytest

from alpineagents.errors import ToolError, ToolInputError
from alpineagents.state import State
from alpineagents.tools.base import Hints, Tool
from alpineagents.tools.function import FunctionTool
from alpineagents.values.exchange import ToolSpec
from alpineagents.values.frozen import FrozenDict, freeze


def weigh(grams: int, note: str = "none") -> str:
    """Weigh a parcel.

    Args:
        grams: As shown
    """
    return f"{grams!r} {note}"


async def wait_for(parcel: str, state: State) -> Any:
    await asyncio.sleep(0)
    return parcel, state


class Depot:
    def __init__(self, place: str = "Ulm") -> None:
        self.place = place

    def __repr__(self) -> str:
        return f"<Depot {self.place}>"

    def _weigh(self, grams: int, state: State) -> Any:
        """Weigh here."""
        return self.place, grams, state

    weigh = FunctionTool(_weigh, name="weigh", read_only=True)


def read_only_when_short(args: dict[str, Any]) -> Hints | None:
    return Hints(read_only=True) if len(args["command"]) < 3 else None


def shell(command: str) -> str:
    return command


STATE = State()

# What it is.


def test_name_and_description_come_from_the_function() -> None:
    tool = FunctionTool(weigh)
    assert tool.spec == ToolSpec("weigh", "Weigh a parcel.", tool.input_schema)
    assert isinstance(tool, Tool)
    assert tool.parallel
    assert (tool.read_only, tool.destructive, tool.idempotent, tool.open_world) == (False, True, False, True)
    assert (tool.exception_handler, tool.bound_to, tool.function) == (None, None, weigh)


def test_options_replace_what_the_function_says() -> None:
    tool = FunctionTool(weigh, name="scale-2", description="", parallel=False, read_only=True, open_world=False)
    assert (tool.name, tool.description, tool.parallel) == ("scale-2", "", False)
    assert (tool.read_only, tool.destructive, tool.idempotent, tool.open_world) == (True, False, True, False)


def test_a_function_without_docstring_has_no_description() -> None:
    assert FunctionTool(shell).description == ""


def test_the_model_sees_neither_hints_nor_handlers() -> None:
    def handler(error: OSError) -> str:
        return "no"

    plain = FunctionTool(shell).spec
    tool = FunctionTool(
        shell, parallel=False, destructive=False, exception_handler=handler, hints_for=read_only_when_short
    )
    assert tool.spec == plain


def test_is_async_follows_the_function_and_is_read_only() -> None:
    tool = FunctionTool(wait_for)
    assert tool.is_async
    assert not FunctionTool(weigh).is_async
    with pytest.raises(AttributeError):
        tool.is_async = False  # type: ignore[misc]


def test_it_looks_like_the_function() -> None:
    tool: Any = FunctionTool(weigh, name="scale")
    assert (tool.__name__, tool.__doc__, tool.__module__) == ("weigh", weigh.__doc__, weigh.__module__)
    assert inspect.signature(tool) == inspect.signature(weigh)


def test_repr_shows_the_name_and_the_object() -> None:
    assert repr(FunctionTool(weigh)) == "FunctionTool('weigh')"
    assert repr(Depot().weigh) == "FunctionTool('weigh', bound_to=<Depot Ulm>)"


class Grams:
    def __call__(self, grams: int) -> int:
        return grams


@pytest.mark.parametrize(
    "thing",
    [
        Depot,
        len,
        functools.partial(weigh, 1),
        Grams(),
        staticmethod(weigh),
        classmethod(weigh),
        Depot("Bonn").__repr__,
        "weigh",
        None,
        functools.lru_cache(weigh),
    ],
)
def test_only_a_python_function_becomes_a_tool(thing: Any) -> None:
    with pytest.raises(TypeError, match="takes a function written with def or async def"):
        FunctionTool(thing)


@pytest.mark.parametrize(
    ("thing", "instead"),
    [
        (Depot, r"decorate its methods(?s:.*)tools=\[Depot\(\)\]"),
        (Depot("Bonn").__repr__, r"decorate the method in its class(?s:.*)Depot\(\).__repr__"),
        (staticmethod(weigh), "a static one needs no other decorator"),
        (classmethod(weigh), "write a method with self"),
        (functools.partial(weigh, 1), "write a function around it"),
        (Grams(), "write a function around it"),
        (len, "write a function around it"),
        ("weigh", "options are given by name"),
    ],
)
def test_the_message_says_what_to_decorate_instead(thing: Any, instead: str) -> None:
    with pytest.raises(TypeError, match=instead):
        FunctionTool(thing)


class BrokenRepr:
    def __repr__(self) -> str:
        raise ValueError("no repr")


def test_a_thing_whose_repr_raises_is_refused_like_any_other() -> None:
    with pytest.raises(TypeError, match="takes a function written with def or async def, not BrokenRepr"):
        FunctionTool(BrokenRepr())  # type: ignore[arg-type]


def test_a_classmethod_is_told_from_a_forgotten_hint() -> None:
    def find(cls, number: str) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(TypeError, match=r"'cls' .*classmethod, it cannot be a tool(?s:.*)write a method with self"):
        FunctionTool(find)


def test_a_decorator_without_wraps_is_told_what_it_lacks() -> None:
    def plain(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    with pytest.raises(TypeError, match=r"'args' of .*wrapper(?s:.*)needs functools.wraps"):
        FunctionTool(plain(weigh))


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def test_a_decorator_with_wraps_may_stand_below() -> None:
    tool = FunctionTool(logged(weigh))
    assert tool.spec == FunctionTool(weigh).spec
    assert tool.run({"grams": "5"}, STATE) == "5 none"
    assert asyncio.run(FunctionTool(logged(wait_for)).run({"parcel": "A7"}, STATE)) == ("A7", STATE)

    class Office:
        @FunctionTool
        @logged
        def weigh(self, grams: int) -> Any:
            return self, grams

    office = Office()
    assert office.weigh.run({"grams": 1}, STATE) == (office, 1)


def test_a_docstring_that_is_no_text_is_a_type_error() -> None:
    def take() -> None: ...

    take.__doc__ = 5  # type: ignore[assignment]
    with pytest.raises(TypeError, match="a docstring must be a str, not int: 5"):
        FunctionTool(take)


def test_an_abstract_method_stays_abstract() -> None:
    class Scale(abc.ABC):
        @FunctionTool
        @abc.abstractmethod
        def weigh(self, grams: int) -> int: ...

    class Real(Scale):
        @FunctionTool
        def weigh(self, grams: int) -> int:
            return grams

    with pytest.raises(TypeError, match="abstract"):
        Scale()  # type: ignore[abstract]
    assert Real().weigh.run({"grams": 1}, STATE) == 1


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda tool: pickle.loads(pickle.dumps(tool))])
def test_a_tool_can_be_copied_and_pickled(again: Any) -> None:
    tool = again(FunctionTool(weigh))
    assert tool.spec == FunctionTool(weigh).spec
    assert tool.run({"grams": "5"}, STATE) == "5 none"


def test_an_async_generator_gives_no_result() -> None:
    async def items(n: int) -> Any:
        yield n

    with pytest.raises(TypeError, match="async generator"):
        FunctionTool(items)


def test_a_tool_is_not_made_a_tool_again() -> None:
    class Scale(Tool):
        def run(self, args: dict[str, Any], state: State) -> Any: ...

    for tool in (FunctionTool(weigh), Depot().weigh, Scale(name="scale")):
        with pytest.raises(TypeError, match="applied twice"):
            FunctionTool(tool)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(TypeError, match="'<lambda>' cannot be the name"):
        FunctionTool(lambda: 1)
    assert FunctionTool(lambda: 1, name="one").run({}, STATE) == 1


def test_an_unknown_option_is_a_type_error_that_guesses() -> None:
    with pytest.raises(TypeError, match=r"no option 'paralel'(?s:.*)did you mean parallel"):
        FunctionTool(weigh, paralel=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"no option 'zzz'(?s:.*)the options are name, "):
        FunctionTool(weigh, zzz=True)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": "a b"}, TypeError),
        ({"name": 5}, TypeError),
        ({"description": 5}, TypeError),
        ({"parallel": 1}, TypeError),
        ({"parallel": None}, TypeError),
        ({"open_world": "no"}, TypeError),
        ({"read_only": True, "destructive": True}, ValueError),
    ],
)
def test_options_are_checked_as_for_every_tool(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        FunctionTool(weigh, **options)
    with pytest.raises(error):
        FunctionTool(weigh).copy(**options)


# Calling it.


def test_calling_it_calls_the_function_unchanged() -> None:
    tool = FunctionTool(weigh)
    assert tool("heavy", note="x") == "'heavy' x"  # neither checked nor converted
    with pytest.raises(TypeError, match="grams"):
        tool()


def test_calling_it_lets_exceptions_out_as_they_are() -> None:
    def handler(error: Exception) -> str:
        return "no"

    def fail(error: Any) -> None:
        raise error

    fail.__annotations__ = {"error": str}
    tool = FunctionTool(fail, exception_handler=handler)
    for error in (OSError("gone"), ToolError("no")):
        with pytest.raises(type(error)) as raised:
            tool(error)
        assert raised.value is error


def test_calling_an_async_one_gives_its_coroutine() -> None:
    assert asyncio.run(FunctionTool(wait_for)("A7", STATE)) == ("A7", STATE)


def test_run_checks_fills_in_and_calls() -> None:
    assert FunctionTool(weigh).run({"grams": "5"}, STATE) == "5 none"
    assert FunctionTool(weigh).run(freeze({"grams": 5.0}), STATE) == "5 none"


def test_run_refuses_arguments_that_do_not_fit_before_the_call() -> None:
    called: list[int] = []

    def note(n: int) -> None:
        called.append(n)

    with pytest.raises(ToolInputError, match=r"^n: Input should be a valid integer"):
        FunctionTool(note).run({"n": "x"}, STATE)
    assert called == []


def test_run_of_an_async_function_gives_a_coroutine_and_checks_at_once() -> None:
    tool = FunctionTool(wait_for)
    assert asyncio.run(tool.run({"parcel": "A7"}, STATE))[1] is STATE
    with pytest.raises(ToolInputError):
        tool.run({}, STATE)


def test_the_two_halves_of_run() -> None:
    tool = FunctionTool(weigh)
    assert tool.prepare({"grams": "5"}) == {"grams": 5, "note": "none"}
    assert tool.invoke({"grams": 7, "note": "x"}, STATE) == "7 x"


def test_every_state_parameter_receives_the_very_state() -> None:
    class MyState(State):
        pass

    def both(first: State, n: int, self: MyState | Any = None, *, last: MyState | Any = None) -> Any:
        return first, n, self, last

    both.__annotations__ |= {"first": State, "n": int, "self": MyState, "last": MyState}
    kwargs = {"n": 1}
    given = FunctionTool(both).invoke(kwargs, STATE)
    assert given[0] is given[2] is given[3] is STATE
    assert kwargs == {"n": 1}


def test_a_tool_may_finish_the_state_it_receives() -> None:
    def done(state: State) -> None:
        state.finish("ok")

    state = State()
    FunctionTool(done).run({}, state)
    assert (state.finished, state.answer) == (True, "ok")


# Methods.


def test_on_the_class_it_is_the_unbound_tool_itself() -> None:
    assert Depot.weigh is vars(Depot)["weigh"]
    assert Depot.weigh.bound_to is None


def test_on_an_object_each_access_binds_a_new_tool() -> None:
    depot = Depot()
    bound, again = depot.weigh, depot.weigh
    assert bound is not again
    assert bound.bound_to is again.bound_to is depot
    assert bound.function is Depot.weigh.function
    assert (bound.spec, bound.parallel, bound.read_only) == (Depot.weigh.spec, True, True)
    assert type(bound) is FunctionTool


def test_a_bound_tool_passes_its_object() -> None:
    depot = Depot()
    assert depot.weigh(5, STATE) == ("Ulm", 5, STATE)
    assert depot.weigh.run({"grams": "5"}, STATE) == ("Ulm", 5, STATE)
    assert "self" not in depot.weigh.input_schema["properties"]


def test_an_unbound_tool_needs_the_object_first() -> None:
    assert Depot.weigh(Depot("Bonn"), 5, STATE) == ("Bonn", 5, STATE)
    with pytest.raises(TypeError, match=r"method without an object(?s:.*)Depot\(...\)"):
        Depot.weigh.run({"grams": 5}, STATE)


def test_a_function_that_only_looks_like_a_method_has_no_object_either() -> None:
    def weigh(self) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(TypeError, match=r"make an object of Owner"):
        FunctionTool(weigh).run({}, STATE)


def test_a_bound_tool_stays_bound_where_it_is_stored() -> None:
    bound = Depot("Bonn").weigh

    class Office:
        weigh = bound

    assert Office().weigh is bound


def test_a_function_without_self_is_not_bound() -> None:
    class Office:
        weigh = FunctionTool(weigh)

    assert Office().weigh is Office.weigh
    assert Office().weigh.run({"grams": 1}, STATE) == "1 none"


def test_an_override_reaches_the_inherited_method() -> None:
    class Far(Depot):
        def _weigh(self, grams: int, state: State) -> Any:
            return "far", *super().weigh(grams, state)

        weigh = FunctionTool(_weigh, name="weigh")

    assert Far().weigh.run({"grams": 1}, STATE) == ("far", "Ulm", 1, STATE)


def test_hints_follow_when_it_is_bound() -> None:
    class Machine:
        def _shell(self, command: str) -> str:
            return command

        shell = FunctionTool(_shell, hints_for=read_only_when_short, destructive=False, name="shell")

    tool = Machine().shell
    assert not tool.destructive
    assert tool.hints_for({"command": "ls"}) == Hints(read_only=True)


# Copies.


def test_a_copy_replaces_options_and_leaves_the_original() -> None:
    tool = FunctionTool(weigh, parallel=False)
    copied = tool.copy(name="scale", description="Weighs")
    assert (copied.name, copied.description, copied.parallel) == ("scale", "Weighs", False)
    assert (tool.name, tool.description) == ("weigh", "Weigh a parcel.")
    assert copied.function is tool.function
    assert copied.run({"grams": 1}, STATE) == "1 none"


def test_a_copy_of_a_bound_tool_stays_bound() -> None:
    depot = Depot()
    assert depot.weigh.copy(name="scale").bound_to is depot
    assert Depot.weigh.copy(name="scale").bound_to is None


def test_options_not_given_stay_not_given() -> None:
    copied = FunctionTool(weigh).copy(read_only=True)
    assert (copied.destructive, copied.idempotent) == (False, True)
    with pytest.raises(ValueError, match="contradicts destructive=True"):
        FunctionTool(weigh, destructive=True).copy(read_only=True)
    assert not FunctionTool(weigh, read_only=True).copy(read_only=None).idempotent


def test_none_goes_back_to_what_the_function_says() -> None:
    def handler(error: OSError) -> str:
        return "no"

    tool = FunctionTool(shell, name="a", description="b", exception_handler=handler, hints_for=read_only_when_short)
    kept, plain = tool.copy(), tool.copy(name=None, description=None, exception_handler=None, hints_for=None)
    assert (kept.name, kept.exception_handler) == ("a", handler)
    assert kept.hints_for({"command": "ls"}).read_only
    assert (plain.name, plain.description, plain.exception_handler) == ("shell", "", None)
    assert not plain.hints_for({"command": "ls"}).read_only


@pytest.mark.parametrize("option", ["fn", "function", "zzz"])
def test_a_copy_with_an_unknown_option_is_a_type_error(option: str) -> None:
    with pytest.raises(TypeError, match=f"no option '{option}'"):
        FunctionTool(weigh).copy(**{option: 1})  # type: ignore[misc]


# The hints of one call.


def test_hints_for_gets_a_plain_editable_copy_of_the_raw_arguments() -> None:
    seen: list[Any] = []

    def look(args: dict[str, Any]) -> None:
        seen.append(args)
        args["more"]["deep"].append(1)

    args = FrozenDict(command=5, more={"deep": []})
    FunctionTool(shell, hints_for=look).hints_for(args)
    assert seen == [{"command": 5, "more": {"deep": [1]}}]
    assert type(seen[0]["more"]) is dict
    assert args == {"command": 5, "more": {"deep": []}}


def test_none_means_the_tools_own_hints() -> None:
    tool = FunctionTool(shell, hints_for=read_only_when_short, open_world=False)
    assert tool.hints_for({"command": "remove"}) == Hints(open_world=False)
    assert tool.hints_for({"command": "ls"}) == Hints(read_only=True)
    assert not tool.read_only


def test_a_subclass_of_hints_is_handed_on_as_it_is() -> None:
    class MyHints(Hints):
        pass

    hints = MyHints()
    assert FunctionTool(shell, hints_for=lambda args: hints).hints_for({}) is hints


@pytest.mark.parametrize("answer", [True, {"read_only": True}, Hints])
def test_any_other_answer_is_a_type_error_that_shows_it(answer: Any) -> None:
    tool = FunctionTool(shell, hints_for=lambda args: answer)
    with pytest.raises(TypeError) as refused:
        tool.hints_for({})
    assert repr(answer) in str(refused.value)
    assert "None" in str(refused.value)


def test_an_exception_of_the_hints_function_comes_out() -> None:
    with pytest.raises(KeyError, match="command"):
        FunctionTool(shell, hints_for=read_only_when_short).hints_for({})


async def async_hints(args: Any) -> None: ...


class AsyncHints:
    async def __call__(self, args: Any) -> None: ...


class CallableHints:
    def __call__(self, args: Any, more: int = 1, *rest: int) -> Hints:
        return Hints(read_only=True)

    def method(self, args: Any) -> Hints:
        return Hints(read_only=True)


@pytest.mark.parametrize(
    "function",
    [
        5,
        Hints(),
        Hints,
        async_hints,
        AsyncHints(),
        functools.partial(async_hints),
        lambda: None,
        lambda one, two: None,
        lambda *, args: None,
        min,  # has no signature
    ],
)
def test_a_hints_function_that_cannot_answer_is_a_type_error(function: Any) -> None:
    with pytest.raises(TypeError, match="hints_for"):
        FunctionTool(shell, hints_for=function)


@pytest.mark.parametrize(
    "function",
    [
        CallableHints(),
        CallableHints().method,
        lambda *args: Hints(read_only=True),
        functools.partial(lambda hints, args: hints, Hints(read_only=True)),
    ],
)
def test_any_callable_of_one_argument_can_answer(function: Any) -> None:
    assert FunctionTool(shell, hints_for=function).hints_for({}).read_only


# Exceptions.


def failing(error: BaseException, **options: Any) -> Callable[[str], Any]:
    """Runs a tool that raises `error`, written in one of five ways."""

    def sync() -> None:
        raise error

    async def asynchronous() -> None:
        raise error

    def returning() -> Awaitable[None]:
        return asynchronous()

    def generating() -> Any:
        yield 1
        raise error

    def method(self: Any) -> None:
        raise error

    method.__annotations__.clear()

    def run(kind: str) -> Any:
        if kind == "method":
            tool = FunctionTool(method, **options).__get__(SimpleNamespace())
            return tool.run({}, STATE)
        function = {"sync": sync, "async": asynchronous, "returning": returning, "generating": generating}[kind]
        value = FunctionTool(function, **options).run({}, STATE)
        if inspect.isgenerator(value):
            return list(value)
        return asyncio.run(value) if inspect.iscoroutine(value) else value

    return run


def explained(error: OSError | ValueError) -> str:
    return f"sorry: {error}"


KINDS = pytest.mark.parametrize("kind", ["sync", "async", "method", "returning", "generating"])


@KINDS
def test_a_handled_exception_becomes_a_message_for_the_model(kind: str) -> None:
    error = FileNotFoundError("gone")
    with pytest.raises(ToolError, match=r"^sorry: gone$") as raised:
        failing(error, exception_handler=explained)(kind)
    assert raised.value.__cause__ is error


@KINDS
@pytest.mark.parametrize("error", [KeyError("x"), KeyboardInterrupt(), ToolError("no"), ToolInputError("odd")])
def test_any_other_exception_comes_out_as_it_is(kind: str, error: BaseException) -> None:
    with pytest.raises(type(error)) as raised:
        failing(error, exception_handler=explained)(kind)
    assert raised.value is error


def takes_all(error: Exception) -> str:
    raise AssertionError("not to be asked")


@KINDS
@pytest.mark.parametrize("error", [ToolError("no"), ToolInputError("odd"), SystemExit(1), KeyboardInterrupt()])
def test_messages_for_the_model_and_exits_are_no_business_of_a_handler(kind: str, error: BaseException) -> None:
    with pytest.raises(type(error)) as raised:
        failing(error, exception_handler=takes_all)(kind)
    assert raised.value is error


def test_a_handler_is_not_asked_about_the_argument_check() -> None:
    with pytest.raises(ToolInputError):
        FunctionTool(weigh, exception_handler=takes_all).run({}, STATE)


def test_a_handler_does_not_touch_a_value() -> None:
    def items(n: int) -> Any:
        yield from range(n)

    assert list(FunctionTool(items, exception_handler=takes_all).run({"n": 2}, STATE)) == [0, 1]
    assert FunctionTool(weigh, exception_handler=takes_all).run({"grams": 1}, STATE) == "1 none"
    tool = FunctionTool(wait_for, exception_handler=takes_all)
    assert asyncio.run(tool.run({"parcel": "A7"}, STATE)) == ("A7", STATE)


def reraises(error: OSError) -> str:
    raise error


def raises_tool_error(error: OSError) -> str:
    raise ToolError("from the handler")


def has_a_bug(error: OSError) -> str:
    raise ZeroDivisionError


@KINDS
@pytest.mark.parametrize(
    ("handler", "raised_by_it"), [(reraises, OSError), (raises_tool_error, ToolError), (has_a_bug, ZeroDivisionError)]
)
def test_what_a_handler_raises_replaces_the_exception(kind: str, handler: Any, raised_by_it: type[Exception]) -> None:
    error = OSError("gone")
    with pytest.raises(raised_by_it) as raised:
        failing(error, exception_handler=handler)(kind)
    assert (raised.value is error) == (handler is reraises)


@pytest.mark.parametrize("answer", [None, "", " \n", 5, b"text"])
def test_a_handler_that_gives_no_message_is_a_type_error(answer: Any) -> None:
    def handler(error: OSError) -> str:
        return answer

    error = OSError("gone")
    with pytest.raises(TypeError, match="exception_handler of tool 'sync' returned") as raised:
        failing(error, exception_handler=handler)("sync")
    assert raised.value.__cause__ is error


def two(one: OSError, other: OSError) -> str: ...  # type: ignore[empty-body]
def optional(error: OSError = OSError()) -> str: ...  # type: ignore[empty-body]  # noqa: B008
def keyword(*, error: OSError) -> str: ...  # type: ignore[empty-body]
def keyword_too(error: OSError, *, more: int) -> str: ...  # type: ignore[empty-body]
def rest(*errors: OSError) -> str: ...  # type: ignore[empty-body]
def unhinted(error) -> str: ...  # type: ignore[no-untyped-def]
def unknown(error: Missing) -> str: ...  # type: ignore[name-defined]  # noqa: F821
def maybe(error: OSError | None) -> str: ...  # type: ignore[empty-body]
def no_exception(error: int) -> str: ...  # type: ignore[empty-body]
def listed(error: list[OSError]) -> str: ...  # type: ignore[empty-body]
def interrupt(error: KeyboardInterrupt) -> str: ...  # type: ignore[empty-body]
def exits(error: OSError | SystemExit) -> str: ...  # type: ignore[empty-body]
def base(error: BaseException) -> str: ...  # type: ignore[empty-body]
async def asynchronous(error: OSError) -> str: ...  # type: ignore[empty-body]


class AsyncHandler:
    async def __call__(self, error: OSError) -> str: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    "handler",
    [
        *[two, optional, keyword, keyword_too, rest, unhinted, unknown, maybe, no_exception, listed, interrupt, exits],
        *[base, asynchronous, AsyncHandler(), AsyncHandler, "text", OSError, lambda error: "x"],
    ],
)
def test_a_handler_that_cannot_be_used_is_a_type_error(handler: Any) -> None:
    with pytest.raises(TypeError, match="exception_handler"):
        FunctionTool(shell, exception_handler=handler)
    with pytest.raises(TypeError, match="exception_handler"):
        FunctionTool(shell).copy(exception_handler=handler)


class Handler:
    def __call__(self, error: "OSError", /, prefix: str = "sorry", *, more: int = 1) -> str:  # noqa: UP037
        return f"{prefix}: {error}"

    def method(self, error: Union[OSError, KeyError]) -> str:  # noqa: UP007
        return f"sorry: {error}"


def prefixed(prefix: str, error: OSError) -> str:
    return f"{prefix}: {error}"


@pytest.mark.parametrize("handler", [Handler(), Handler().method, functools.partial(prefixed, "sorry"), explained])
def test_any_callable_with_a_hint_can_handle(handler: Any) -> None:
    with pytest.raises(ToolError, match="sorry: gone"):
        failing(OSError("gone"), exception_handler=handler)("sync")
