"""The servers that a client may connect to: the connection string, and the order in which they are tried.

    hosts  := server ("," server)* [chroot]
    server := name [":" port] | "[" IPv6 "]" [":" port]     the port is 2181 when it is not given
    chroot := "/" path                                      every path of the client is below it

The order is shuffled once, so that the clients of an ensemble spread over its members. Then it is followed in a circle:
a client that loses its server tries the next one, not the first. The randomness is handed in.

A name may have several addresses, as that of a headless service: each of them is a server. Names are resolved when
their turn comes, and again in each round. The addresses of a name are shuffled; the one that was tried last in the
round before comes last.

Deliberately not here: when to dial (`zab.client.core.servers`), resolving names (the backends).
"""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

__all__ = ["DEFAULT_PORT", "Host", "HostOrder", "Place", "parse_hosts"]

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


class Place(NamedTuple):
    """Where a server is tried. address: one of the several that its name has; None: resolve the name."""

    host: Host
    address: str | None = None

    def __str__(self) -> str:
        return str(self.host) if self.address is None else f"{self.host} ({self.address})"


class HostOrder:
    """Gives the next place to try, without end. `tried_all`: each was given once since `settle`."""

    def __init__(self, hosts: Sequence[Host], random: Random) -> None:
        assert hosts
        self._ring = [Place(host) for host in hosts]
        self._random = random
        random.shuffle(self._ring)
        self._next = 0
        self._given = 0
        self._last: Place | None = None
        self._tried: Place | None = None
        """The last place of the round before."""
        self._preferred: Place | None = None

    def __len__(self) -> int:
        return len(self._ring)

    @property
    def tried_all(self) -> bool:
        return self._given >= len(self._ring)

    def next(self) -> Place:
        if self._given in (0, len(self._ring)):
            self._begin_round()
        self._last = self.other()
        self._given += 1
        return self._last

    def other(self) -> Place:
        """Another place, to be probed while a server has the session: it does not count as tried."""
        place = self._ring[self._next]
        self._next = (self._next + 1) % len(self._ring)
        return place

    def found_other(self, place: Place, addresses: Sequence[str]) -> Place:
        """The name of the place that `other` gave has these addresses now. Returns the one to ask: that place, if it is
        among them, else the first of them; the others come after it."""
        of_host = [each for each in self._ring if each.host == place.host]
        at = self._ring.index(of_host[0])
        several = sorted(dict.fromkeys(addresses))
        if len(several) > 1 or of_host[0].address is not None:
            here = [each for each in of_host if each.address in several]
            new = [Place(place.host, address) for address in several if Place(place.host, address) not in here]
            self._ring[at : at + len(of_host)] = [*here, *new]
        chosen = place if place in self._ring else self._ring[at]
        self._next = (self._ring.index(chosen) + 1) % len(self._ring)
        return chosen

    def found(self, addresses: Sequence[str]) -> Place:
        """The name of the place that `next` gave last has these addresses. Returns the first to try."""
        assert self._last is not None
        host = self._last.host
        at = self._ring.index(self._last)
        several = sorted(dict.fromkeys(addresses))
        if len(several) > 1:
            self._random.shuffle(several)
            several.sort(key=lambda address: self._rank(Place(host, address)))
            self._ring[at : at + 1] = [Place(host, address) for address in several]
            self._next = (at + 1) % len(self._ring)
        self._tried, self._preferred, self._last = None, None, self._ring[at]
        return self._last

    def prefer(self, place: Place) -> None:
        """`place` is the next to try."""
        self._preferred = place
        self._given = 0

    def settle(self) -> None:
        """A server took the session. The next search is a new round, beginning with the host after it."""
        self._given = 0

    def _begin_round(self) -> None:
        """In a new round each name is resolved again."""
        self._given = 0
        self._tried = self._last
        self._ring = [Place(host) for host in dict.fromkeys(place.host for place in self._ring)]
        if self._preferred is not None:
            self._next = self._ring.index(Place(self._preferred.host))
        elif self._last is not None:
            self._next = (self._ring.index(Place(self._last.host)) + 1) % len(self._ring)

    def _rank(self, place: Place) -> int:
        """The preferred place comes first, the one that was tried last comes last."""
        return (place == self._tried) - (place == self._preferred)
