"""The contract of every Store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Self, TypeAlias

from alpineagents.errors import explain
from alpineagents.state import State, check_id
from alpineagents.store.info import Record, StateInfo
from alpineagents.store.saving import save, state_from
from alpineagents.waiting import awaiting, blocking, complete, in_thread, refuse_blocking

Infos: TypeAlias = list[StateInfo]


class Store:
    """Keeps States outside the process. Subclass it with `write` and `read`, their async forms, or both.

    Attributes:
        write_through: Whether a bound State writes every change at once, rather than at the save points of a run.
    Raises:
        TypeError: The class has neither `write` nor `awrite`, or neither `read` nor `aread`.
    """

    write_through: ClassVar[bool] = False

    def __new__(cls, *args: Any, **arguments: Any) -> Self:
        for name in ("write", "read"):
            if not _has(cls, name) and not _has(cls, f"a{name}"):
                raise TypeError(
                    explain(
                        f"{cls.__name__} has neither {name} nor a{name}",
                        f"define {name} (or async def a{name})",
                        f"class {cls.__name__}(Store):\n    def {name}(self, state_id, ...): ...",
                    )
                )
        return super().__new__(cls)

    def write(
        self, state_id: str, entries: Sequence[dict[str, Any]], info: Mapping[str, Any], *, create: bool = False
    ) -> None:
        """Add the entries the store lacks and replace the info, all or nothing.

        Args:
            entries: In the JSON form, in `seq` order, right behind what the store has; those it has are passed over.
            info: Small JSON for listings.
            create: This is the first write of the State.
        Raises:
            ValueError: `create` and the id exists, or the entries start behind a gap.
            LookupError: Not `create` and the id is unknown.
        """
        self._refuse_async_only("write")

    async def awrite(
        self, state_id: str, entries: Sequence[dict[str, Any]], info: Mapping[str, Any], *, create: bool = False
    ) -> None:
        """`write` without blocking the event loop; by default on a worker thread."""
        await in_thread(self.write, state_id, entries, info, create=create)

    def read(self, state_id: str) -> Record | None:
        """All entries in order and the latest info, or `None` for an unknown id."""
        self._refuse_async_only("read")

    async def aread(self, state_id: str) -> Record | None:
        """`read` without blocking the event loop; by default on a worker thread."""
        return await in_thread(self.read, state_id)

    def list(self) -> Infos:
        """Every saved State, the latest `updated_at` first, those without history last.

        Raises:
            NotImplementedError: This Store cannot list.
        """
        self._refuse_missing("list")

    async def alist(self) -> Infos:
        """`list` without blocking the event loop."""
        if not _has(type(self), "list"):
            self._refuse_missing("list")
        return await in_thread(self.list)

    def delete(self, state_id: str) -> None:
        """Remove one State; an unknown id is no error.

        Raises:
            NotImplementedError: This Store cannot delete.
        """
        self._refuse_missing("delete")

    async def adelete(self, state_id: str) -> None:
        """`delete` without blocking the event loop."""
        if not _has(type(self), "delete"):
            self._refuse_missing("delete")
        await in_thread(self.delete, state_id)

    def save(self, state: State) -> None:
        """Write what this store lacks of the State; a run does it by itself.

        Raises:
            TypeError: `state` is no State, or this Store works only asynchronously.
            ValueError: The State is kept in another store, or is new here and its id is taken.
        """
        refuse_blocking("store.save", "store.asave")
        if is_async_only(self):
            self._refuse_async_only("save")
        complete(save(blocking, self, state))

    async def asave(self, state: State) -> None:
        """`save` without blocking the event loop."""
        await save(awaiting, self, state)

    def load(self, state_id: str) -> State:
        """The saved State, ready to run again.

        Args:
            state_id: 1-128 characters of `A-Z a-z 0-9 _ -`.
        Returns:
            A new State equal to the saved one. A turn that the end of a process left open is closed: its request is
            taken back, or its calls get a result that says their outcome is unknown.
        Raises:
            TypeError: `state_id` is no `str`.
            LookupError: Nothing is saved under this id.
            ValueError: The id has other characters, or the saved data is damaged or of another version.
        """
        check_id(state_id)
        return state_from(self, state_id, self.read(state_id))

    async def aload(self, state_id: str) -> State:
        """`load` without blocking the event loop."""
        check_id(state_id)
        return state_from(self, state_id, await self.aread(state_id))

    def _refuse_async_only(self, name: str) -> NoReturn:
        raise TypeError(
            explain(
                f"{type(self).__name__} works only asynchronously: it has no {name}",
                "use the async forms of methods",
                "await agent.arun(state)\nawait state.achild(child_id)",
            )
        )

    def _refuse_missing(self, name: str) -> NoReturn:
        if _has(type(self), f"a{name}"):
            self._refuse_async_only(name)
        raise NotImplementedError(f"{type(self).__name__} does not implement {name}")


def _has(cls: type[Store], name: str) -> bool:
    return getattr(cls, name) is not getattr(Store, name)


def is_async_only(store: Store) -> bool:
    """Whether this Store cannot write synchronously."""
    return not _has(type(store), "write")
