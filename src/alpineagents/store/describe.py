"""One sentence for every table, view and column: Datasette shows them, and `docs/file-format.md` repeats them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Description:
    """What a table or view holds, and what each of its columns says."""

    sentence: str
    columns: dict[str, str]


_PLACE = {
    "state_id": "The State it belongs to.",
    "seq": "Its place in the State's history, from 0.",
    "turn": "The State's turn when it was recorded.",
}

DESCRIPTIONS = {
    "states": Description(
        "One row per State, that is one conversation: what a listing shows, as of its latest entry.",
        {
            "id": "The name of the State: 1 to 128 letters, digits, `_` and `-`.",
            "v": "The version of the JSON form its entries are in.",
            "parent_id": "For a subagent, the State whose tool call first ran it. It may be in another file.",
            "parent_call_id": "The id of that call.",
            "forked_from": "For a fork, the State it was forked from, as long as that is in this file.",
            "forked_at": "How many entries the fork began with: those before this `seq` are a copy.",
            "agent": "The name of the Agent that ran it last.",
            "model": "The model of the Agent that ran it last, as `provider/name`.",
            "first_message": "The text of the first user message, at most 2,000 characters.",
            "status": "How the latest run stands, in one word.",
            "stopped": "Why the latest run is set to stop, as a person reads it.",
            "stop": "The same as JSON. NULL if it is longer than 2,000 characters: then entry `stop_seq` has it.",
            "stop_seq": "The `seq` of the entry that set the reason to stop.",
            "finished": "1 if `finish` was called and not undone, else 0.",
            "answer": "The answer, at most 2,000 characters: a text as it is, anything else as JSON.",
            "turn": "How many replies it has got, and one more while a request waits.",
            "entry_count": "How many entries its history has.",
            "input_tokens": "Input tokens that were not cached, of the State and of the subagents its calls ran.",
            "output_tokens": "Output tokens, counted likewise.",
            "cache_read_tokens": "Input tokens read from the provider's cache, counted likewise.",
            "cache_write_tokens": "Input tokens written to the provider's cache, counted likewise.",
            "requests": "Model requests that were answered, counted likewise.",
            "cost": "US dollars, counted likewise. NULL: unknown; 0: free.",
            "error_count": "How many entries of the kind `error` it has.",
            "created_at": "When its first entry was recorded.",
            "updated_at": "When its latest entry was recorded.",
            "more": "What a store of somebody's own keeps beside these columns, as JSON. Otherwise NULL.",
        },
    ),
    "entries": Description(
        "One row per history entry: everything that ever happened to a State. All else follows from this.",
        {
            "id": "The order of writing, over all States: what is new since is `id > ?`.",
            "state_id": "The State whose history it is in.",
            "seq": _PLACE["seq"],
            "kind": "What happened: one of thirteen words.",
            "turn": _PLACE["turn"],
            "at": "When it was recorded.",
            "closes": "The `seq` of the request that this reply or error answers, or of the reply whose call it ends.",
            "block": "For the result of a call: which block of that reply the call is, from 0.",
            "data": "The entry's own fields, as a JSON object.",
            "original": "NULL, unless a text has a lone surrogate: then the fields as they really are, in ASCII.",
            "tool": "The name of the tool, for results and for errors about a call.",
            "call_id": "The id of the call, for the same. Providers may use one id twice.",
            "outcome": "How a call ended, for results.",
            "late": "1 for a result that came after its call had been closed, 0 for the others.",
            "is_error": "1 for an error and for a result other than `done`, 0 for `done`.",
            "model": "The model asked, that answered, or of the Agent: for requests, replies and starts of runs.",
            "text": "The first 500 characters of what a person would read.",
        },
    ),
    "blobs": Description(
        "The bytes of each image, once however often it was sent; `data` names them by hash.",
        {
            "sha256": "The SHA-256 of the bytes, in hexadecimal.",
            "media_type": "`image/png`, `image/jpeg`, `image/gif` or `image/webp`.",
            "bytes": "The file as it was sent.",
        },
    ),
    "tool_calls": Description(
        "One row per tool call, with its result. A call without an outcome is pending.",
        {
            **_PLACE,
            "seq": "The `seq` of the reply that asked for it.",
            "call_id": "The provider's id of the call; it may occur twice.",
            "tool": "The name of the tool.",
            "args": "The arguments, as a JSON object.",
            "outcome": "`done`, `error`, `input_error`, `aborted`, `interrupted`, `denied` or `cancelled`.",
            "result": "What the model got: a text, or blocks as a JSON list.",
            "late_result": "What came after the call had been closed; the model got it as a notice.",
            "started_at": "When the reply came.",
            "ended_at": "When the result was recorded.",
            "duration_s": "Seconds between the two, waiting for a person or for other calls included.",
            "child_ids": "The States of the subagents it ran, as a JSON list.",
            "block": "Which block of the reply it is, from 0.",
            "result_seq": "The `seq` of the result.",
            "is_error": "1 if the model got it as an error, else 0. It finds failures by an index.",
        },
    ),
    "model_calls": Description(
        "One row per request to a model, with its reply or the error that ended it.",
        {
            **_PLACE,
            "seq": "The `seq` of the request.",
            "model": "The model asked, as `provider/name`.",
            "started_at": "When the request was recorded.",
            "latency_s": "Seconds until the reply or error; NULL while it waits.",
            "input_tokens": "Input tokens that were not cached. NULL without a reply.",
            "output_tokens": "Output tokens.",
            "cache_read_tokens": "Input tokens read from the provider's cache.",
            "cache_write_tokens": "Input tokens written to the provider's cache.",
            "cost": "US dollars. NULL: unknown; 0: free.",
            "stop_reason": "The provider's word for why the reply ended.",
            "error": "The error that ended the request, its type and message.",
            "ended_at": "When the reply or error was recorded.",
            "reply_seq": "The `seq` of the reply or error.",
            "reply_model": "The model that answered, as the provider names it.",
            "context_tokens": "Tokens of the whole context, the reply included.",
        },
    ),
    "runs": Description(
        "One row per run of an Agent, from its start to the next.",
        {
            "state_id": _PLACE["state_id"],
            "seq": "The `seq` of the entry that started it.",
            "agent": "The name of the Agent.",
            "model": "The model of the Agent, as `provider/name`.",
            "started_at": "When it started.",
            "ended_at": "When what ended it was recorded; after a crash, when the State was loaded again.",
            "how_ended": "`answered`, `finished`, `limit`, `permission`, `failed` or `interrupted`; NULL: not ended.",
            "turns": "How many replies it got.",
        },
    ),
    "subagent_tree": Description(
        "One row per State: the run that all began with, and the way from there.",
        {
            "root_id": "The State at the top. It has no parent, or none in this file.",
            "state_id": "The State itself; a root stands under itself.",
            "depth": "0 for the root, 1 for the subagents it ran.",
            "path": "The ids from the root to the State, joined by `/`.",
        },
    ),
    "errors": Description(
        "One row per exception that was raised while thinking, using tools or running.",
        {
            **_PLACE,
            "at": "When it was recorded.",
            "error": "Its type and message.",
            "tool": "The tool of the call it is about, if it is about one.",
            "call_id": "The id of that call.",
            "args": "The arguments of that call, as a JSON object.",
            "closes": "The `seq` of the request it ended, if it ended one.",
        },
    ),
    "exchanges": Description(
        "One row per question put to the model or a person outside the context.",
        {
            **_PLACE,
            "at": "When the answer was recorded.",
            "kind": "`ask`: the model was asked; `human`: a person.",
            "question": "The question.",
            "answer": "A text as it is, anything else as JSON. NULL: no valid answer came.",
            "cost": "What it cost, in US dollars. NULL: unknown, or nothing was asked of a model.",
        },
    ),
}
