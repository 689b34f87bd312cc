"""A configuration in a znode, or in a znode's children, as a value of the program that follows the changes.

    config = Configuration(zk, "/app/config", from_json)        # or from_toml, or a function of your own
    async with config:                                          # entered when the value was read
        config.value["timeout_s"]                               # takes no request
        async for value in config.following(): ...              # now, and after each change

    Configuration(zk, "/app/config", lambda data: Limits(**from_json(data)))
    Configuration.of_children(zk, "/app/flags", lambda flags: {name: data == b"on" for name, data in flags.items()})

*Data that cannot be parsed changes nothing*: the last good value stays, and `error` says what is wrong with the data.
At the beginning there is no good value yet: then entering raises BadDataError. If the znode does not exist, the value
is `default`; without a default, entering raises NoNodeError. If the znode is deleted later, the value is the default,
or the last good one.

`parse` raises ValueError, TypeError, KeyError or AttributeError for data that it does not accept; anything else is a
bug, and is raised from `value` and the iterators.
"""

import json
import tomllib
from collections.abc import Callable
from typing import Any, Final, Generic, Self, TypeVar

from zab.client.client import Client
from zab.client.core.exceptions import ClientClosedError, NoNodeError
from zab.client.recipes.copy import Copy, Depth
from zab.client.recipes.errors import BadDataError
from zab.client.recipes.followed import Followed
from zab.client.recipes.paths import checked

__all__ = ["NO_DEFAULT", "Configuration", "Values", "from_json", "from_toml"]

T = TypeVar("T")

NO_DEFAULT: Final[Any] = object()
_REFUSED: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


def from_json(data: bytes) -> Any:
    """Raises ValueError."""
    return json.loads(data)


def from_toml(data: bytes) -> dict[str, Any]:
    """Raises ValueError."""
    return tomllib.loads(data.decode())


class Configuration(Followed, Generic[T]):
    """path: that of the znode. parse: makes the value from the data."""

    def __init__(self, zk: Client, path: str, parse: Callable[[bytes], T], default: T = NO_DEFAULT) -> None:
        self.path = checked(zk, path) or "/"
        self.error: BadDataError | None = None
        """What is wrong with the current data; None if nothing is."""
        self._default = default
        self._copy = Copy(zk, self.path, Depth.ZNODE)
        self._parse: Callable[[], T] = lambda: parse(self._copy.entries[self.path].data or b"")
        self._value: T = default
        self._seen: object = None

    @classmethod
    def of_children(
        cls, zk: Client, path: str, parse: Callable[[dict[str, bytes]], T], default: T = NO_DEFAULT
    ) -> "Configuration[T]":
        """parse: makes the value from the children's names and data."""
        made: Configuration[T] = cls(zk, path, _unused, default)
        copy = made._copy = Copy(zk, made.path, Depth.CHILDREN)
        prefix = made.path.rstrip("/") + "/"
        made._parse = lambda: parse(
            {
                found.removeprefix(prefix): entry.data or b""
                for found, entry in sorted(copy.entries.items())
                if found != made.path
            }
        )
        return made

    async def start(self) -> None:
        """Returns when the value was read. Raises BadDataError, NoNodeError."""
        await self._copy.begin()
        self._look()
        if self._value is NO_DEFAULT:
            raise self.error or NoNodeError(self.path)

    @property
    def value(self) -> T:
        """The last good value that this client has read."""
        self._look()
        if self._value is NO_DEFAULT:
            raise RuntimeError(f"the configuration {self.path} was not started")
        return self._value

    def following(self) -> "Values[T]":
        """`async for value in config.following()`: the value now, and each different one."""
        return Values(self, self._copy)

    def _look(self) -> None:
        """Parses the data, unless it was parsed last."""
        entries = self._copy.entries
        seen = tuple((path, entry.stat.mzxid) for path, entry in sorted(entries.items()))
        # In between the children may be half read.
        if seen == self._seen or not self._copy.is_there or self._copy.is_reading:
            return
        self._seen = seen
        self.error = None
        if self.path not in entries:
            if self._default is not NO_DEFAULT:
                self._value = self._default
            return
        try:
            self._value = self._parse()
        except _REFUSED as error:
            self.error = BadDataError(self.path, f"it is no such configuration: {error}")
            self.error.__cause__ = error


class Values(Generic[T]):
    """Made by `Configuration.following`. If values change quickly, some may be skipped."""

    def __init__(self, configuration: Configuration[T], copy: Copy) -> None:
        self._configuration = configuration
        self._copy = copy
        self._last: Any = NO_DEFAULT

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while True:
            value = self._configuration.value
            if self._last is NO_DEFAULT or value != self._last:
                self._last = value
                return value
            if self._copy.reason is not None and not isinstance(self._copy.reason, ClientClosedError):
                raise self._copy.reason
            if self._copy.is_done:
                raise StopAsyncIteration
            await self._copy.signal.wait()


def _unused(_data: bytes) -> Any:
    raise AssertionError("the children are parsed")
