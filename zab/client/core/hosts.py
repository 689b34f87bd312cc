"""The servers a client may connect to: the connection string, and the order in which they are tried.

    hosts  := server ("," server)* [chroot]
    server := name [":" port] | "[" IPv6 "]" [":" port]     the port is 2181 when it is not given
    chroot := "/" path                                      every path of the client is below it

The order is shuffled once, so that the clients of an ensemble spread over its members. Then it is followed in a circle:
a client that loses its server tries the next one, not the first. The randomness is handed in.

Deliberately not here: resolving names and dialing (`zab.client.core.runtime`).
"""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

__all__ = ["DEFAULT_PORT", "Host", "HostOrder", "parse_hosts"]

DEFAULT_PORT: Final = 2181


class Host(NamedTuple):
    """Name or address, and port, of one server."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


def parse_hosts(text: str) -> tuple[tuple[Host, ...], str]:
    """The servers of a connection string and its chroot ("" without one). ValueError says what is wrong with it."""
    servers, slash, chroot = text.partition("/")
    hosts = tuple(_parse_host(part.strip()) for part in servers.split(",") if part.strip())
    if not hosts:
        raise ValueError(f"no server is named in {text!r}")
    path = f"/{chroot}" if slash and chroot else ""
    if path.endswith("/") or "//" in path:
        raise ValueError(f"the chroot of {text!r} is not a path")
    return hosts, path


def _parse_host(text: str) -> Host:
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is not [IPv6 address]:port")
        port = rest[1:]
    elif text.count(":") > 1:
        raise ValueError(f"an IPv6 address is written in brackets: [{text}]")
    else:
        name, _, port = text.partition(":")
    if not name or "\0" in name:
        raise ValueError(f"{text!r} names no server")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{port!r} in {text!r} is not a port")
    return Host(name, int(port) if port else DEFAULT_PORT)


class HostOrder:
    """Gives the next server to try, for ever. `tried_all` is true when each was given once since `settle`."""

    def __init__(self, hosts: Sequence[Host], random: Random) -> None:
        assert hosts
        self._ring = list(hosts)
        random.shuffle(self._ring)
        self._next = 0
        self._given = 0

    def __len__(self) -> int:
        return len(self._ring)

    @property
    def tried_all(self) -> bool:
        return self._given >= len(self._ring)

    def next(self) -> Host:
        host = self._ring[self._next]
        self._next = (self._next + 1) % len(self._ring)
        self._given = self._given + 1 if self._given < len(self._ring) else 1
        return host

    def prefer(self, host: Host) -> None:
        """The next one is `host`."""
        self._next = self._ring.index(host)

    def settle(self) -> None:
        """A server took the session. The next search is a new round, and begins with the host after it."""
        self._given = 0
