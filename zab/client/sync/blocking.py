"""Methods that block, made from those that are awaited: signature and docstring are written once.

    class Lock(Blocking[awaited.Lock]):
        try_acquire = blocking(awaited.Lock.try_acquire, held_or_none)

    blocking    an `async def`: its coroutine runs to its end in the calling thread
    immediate   a plain method: runs while no other thread runs code of the client
    context     an asynchronous context manager, entered by `with`
    iterator    an asynchronous iterator, read by `for`

Each takes `give`, which turns the result into what blocks. Type checkers see the parameters of the awaited method, and
so do `inspect.signature` and `help`, whose docstrings lose their `async` and `await`.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import wraps
from inspect import signature
from types import GenericAlias, TracebackType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

__all__ = ["Blocking", "Entered", "Iterated", "Runner", "blocking", "context", "documented", "immediate", "iterator"]

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
U = TypeVar("U")
W = TypeVar("W")


class Runner(Protocol):
    """Runs code of a client in the calling thread."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine to its end."""

    def alone(self) -> AbstractContextManager[None]:
        """No other thread runs code of the client within the block."""


class Blocking(Generic[W]):
    """waiting: the same object, whose methods are awaited."""

    def __init__(self, runner: Runner, waiting: W) -> None:
        self._runner = runner
        self.waiting = waiting


class Entered(Blocking[W], Generic[W]):
    """A block: `with … as …`."""

    def __enter__(self) -> Self:
        self._runner.run(cast(AbstractAsyncContextManager[Any], self.waiting).__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._runner.run(cast(AbstractAsyncContextManager[Any], self.waiting).__aexit__(kind, error, traceback))


class Iterated(Blocking[AsyncIterator[T]], Generic[T]):
    """`for … in …`: waits for the next one."""

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        try:
            return self._runner.run(_next(self.waiting))
        except StopAsyncIteration:
            raise StopIteration from None


async def _next(iterator: AsyncIterator[T]) -> T:
    return await iterator.__anext__()


@overload
def blocking(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Blocking[Any], P], T]: ...


@overload
def blocking(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]], give: Callable[[Runner, T], U]
) -> Callable[Concatenate[Blocking[Any], P], U]: ...


def blocking(method: Callable[..., Any], give: Callable[[Runner, Any], Any] | None = None) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Blocking[Any], *given: Any, **options: Any) -> Any:
        result = self._runner.run(method(self.waiting, *given, **options))
        return result if give is None else give(self._runner, result)

    return _told(call, give)


@overload
def immediate(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[Blocking[Any], P], T]: ...


@overload
def immediate(
    method: Callable[Concatenate[S, P], T], give: Callable[[Runner, T], U]
) -> Callable[Concatenate[Blocking[Any], P], U]: ...


def immediate(method: Callable[..., Any], give: Callable[[Runner, Any], Any] | None = None) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Blocking[Any], *given: Any, **options: Any) -> Any:
        with self._runner.alone():
            result = method(self.waiting, *given, **options)
            return result if give is None else give(self._runner, result)

    return _told(call, give)


def context(
    method: Callable[Concatenate[S, P], AbstractAsyncContextManager[T]], give: Callable[[Runner, T], U]
) -> Callable[Concatenate[Blocking[Any], P], AbstractContextManager[U]]:
    @wraps(method)
    @contextmanager
    def call(self: Blocking[Any], *given: Any, **options: Any) -> Generator[U]:
        block = method(self.waiting, *given, **options)
        entered = self._runner.run(_enter(block))
        try:
            yield give(self._runner, entered)
        finally:
            # The exception that ended the block is raised unchanged.
            self._runner.run(_leave(block))

    return _told(call, GenericAlias(AbstractContextManager, (give if isinstance(give, type) else Any,)))


async def _enter(block: AbstractAsyncContextManager[T]) -> T:
    return await block.__aenter__()


async def _leave(block: AbstractAsyncContextManager[Any]) -> None:
    await block.__aexit__(None, None, None)


def iterator(
    method: Callable[Concatenate[S, P], AsyncIterator[T]],
) -> Callable[Concatenate[Blocking[Any], P], Iterated[T]]:
    return immediate(method, Iterated)


_AWAITED: Final = (("async for", "for"), ("async with", "with"), ("await ", ""))


def _told(call: Callable[..., Any], result: object) -> Callable[..., Any]:
    """Adds what `help` shows. result: the class that it returns, if it is not that of the awaited method."""
    if isinstance(result, type | GenericAlias):
        vars(call)["__signature__"] = signature(call).replace(return_annotation=result)
    return documented(call)(call)


def documented(method: Callable[..., Any]) -> Callable[[F], F]:
    """Gives a method the docstring of the one that is awaited."""
    text = method.__doc__ or ""
    for awaited, blocks in _AWAITED:
        text = text.replace(awaited, blocks)

    def document(function: F) -> F:
        function.__doc__ = text or None
        return function

    return document
