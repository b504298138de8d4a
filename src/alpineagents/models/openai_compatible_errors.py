"""What a failure of a Chat Completions server is called here, and what it says.

Servers differ in the form of an error: an object under `error`, a text there, only a `message` or a `detail`, a list
around it, no JSON at all. The exceptions of httpx are told apart by what they carry, so nothing is imported for it.
"""

from __future__ import annotations

import json
from typing import Any, cast

from alpineagents.errors import AuthError, ContextTooLongError, ProviderError, RateLimitError, error_text, explain
from alpineagents.models.retrying import Failure
from alpineagents.models.wire import Json, as_dict, as_text, short

NO_KEY = explain(
    "there is no key for the OpenAI API",
    "set the environment variable OPENAI_API_KEY, give the key to the model, or name another server",
    'OpenAICompatible("gpt-5", api_key=os.environ["MY_KEY"])\n'
    'OpenAICompatible("llama3:8b", base_url="http://localhost:11434/v1")',
)

_NOT_FOUND = 404
_BAD_REQUESTS = (400, 422)
_BY_STATUS: dict[int, type[ProviderError]] = {
    401: AuthError,
    403: AuthError,
    413: ContextTooLongError,
    429: RateLimitError,
}
_TOO_LONG = (
    "context length",
    "maximum context",
    "context_length_exceeded",
    "context window",
    "prompt is too long",
    "available context size",
)
_FIXES: dict[type[ProviderError], str] = {
    AuthError: "check the key in OPENAI_API_KEY or in OpenAICompatible(..., api_key=...), and base_url",
    ContextTooLongError: "send less: agent.compact(state), or state.clear_tool_results()",
}
_NO_WAITING = frozenset({"InvalidURL", "LocalProtocolError", "UnsupportedProtocol"})  # nothing has been sent at all


def refused(response: Any, url: str, name: str) -> ProviderError:
    """The failure of a request that got an answer other than 2xx.

    Args:
        response: That of httpx, with its body read.
        url, name: What was asked, and for which model.
    """
    status: int = response.status_code
    body = read_body(response.content)
    if response.has_redirect_location:
        target = response.headers["location"]
        return ProviderError(explain(f"{url} answered {status}: go to {target}", "give base_url as that server has it"))
    kind = _BY_STATUS.get(status, ProviderError)
    if status in _BAD_REQUESTS and _too_long(body):
        kind = ContextTooLongError
    said = short(server_text(body)) or "nothing more"
    if status == _NOT_FOUND:
        problem = f"{url} answered {status} for the model {name!r}: {said}"
        return kind(explain(problem, "check the name of the model, and base_url"))
    problem, fix = f"the server of {name} answered {status}: {said}", _FIXES.get(kind)
    return kind(explain(problem, fix) if fix else problem)


def failed_inside(said: object, name: str) -> ProviderError:
    """The failure that an answer with the status 2xx tells of."""
    kind = _BY_STATUS.get(_code_in(said), ProviderError)
    if kind is ProviderError and _too_long(said):
        kind = ContextTooLongError
    problem, fix = f"the server of {name} failed while it replied: {short(server_text(said))}", _FIXES.get(kind)
    return kind(explain(problem, fix) if fix else problem)


def unreachable(error: Exception, url: str) -> ProviderError:
    """The failure of a request that got no answer."""
    problem = f"the request to {url} failed: {short(error_text(error))}"
    return ProviderError(explain(problem, "check base_url, and that the server is running"))


def broken_off(error: Exception, url: str) -> ProviderError:
    """The failure of a reply that had begun."""
    return ProviderError(f"the reply of {url} broke off: {short(error_text(error))}")


def failure_of(error: Exception) -> Failure | None:
    """What decides whether a failed request is sent again."""
    cause = error.__cause__
    if not isinstance(error, ProviderError) or cause is None:
        return None
    text = str(error).partition("\n")[0]
    response: Any = getattr(cause, "response", None)
    if response is None:
        return Failure(text, final=any(kind.__name__ in _NO_WAITING for kind in type(cause).__mro__))
    wrong = _error_in(read_body(response.content))
    empty_account = "insufficient_quota" in (wrong.get("type"), wrong.get("code"))
    return Failure(text, response.status_code, response.headers, final=empty_account)


def complaint(error: ProviderError) -> str:
    """What a server that could not read the request says about it; empty for any other failure."""
    response: Any = getattr(error.__cause__, "response", None)
    if response is None or response.status_code not in _BAD_REQUESTS:
        return ""
    body = read_body(response.content)
    return f"{server_text(body)} {as_text(_error_in(body).get('param'))}"


def is_failure(said: Json) -> bool:
    """Whether an object that came as a part of a reply tells of a failure instead."""
    return said.get("error") is not None or said.get("object") == "error"


def read_body(body: bytes | str) -> object:
    """The value of a body that should be JSON, else its text."""
    text = body if isinstance(body, str) else body.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def server_text(body: object) -> str:
    """What the server itself says in the body of an error."""
    whole = _whole(body)
    error = whole.get("error")
    for said in (as_dict(error).get("message"), error, whole.get("message"), whole.get("detail")):
        if isinstance(said, str) and said:
            return said
    detail = whole.get("detail")
    return json.dumps(detail, ensure_ascii=False) if detail is not None else _raw(body)


def _raw(body: object) -> str:
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=repr)


def _whole(body: object) -> Json:
    """The object of an error; Gemini's endpoint puts a list around it."""
    items = cast("list[object]", body) if isinstance(body, list) else [body]
    return as_dict(items[0]) if items else {}


def _error_in(body: object) -> Json:
    whole = _whole(body)
    return as_dict(whole.get("error")) or whole


def _code_in(said: object) -> int:
    for place in (_error_in(said), _whole(said)):
        for key in ("code", "status", "status_code"):
            code = str(place.get(key))
            if code.isdecimal() and code.isascii() and int(code[:9]) in _BY_STATUS:
                return int(code)
    return 0


def _too_long(body: object) -> bool:
    wrong, text = _error_in(body), server_text(body).lower()
    if wrong.get("code") == "context_length_exceeded" or wrong.get("type") == "exceed_context_size_error":
        return True
    return any(sign in text for sign in _TOO_LONG)
