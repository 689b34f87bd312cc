"""The addresses of the ensemble's servers, from all configurations that this member knows.

At first there is only the configuration of its file. Others come with reconfigurations (`MembershipsChanged`). A server
moves when it learns that its new line is in force, which may be earlier or later than others learn it. So each server
is dialled at all places where it may be:

    in force       its current place
    outstanding    the place to which it may move, or have moved already
    heard          likewise
    before         its former place, on hosts that are still its own: it may not have moved yet, or may be unable to
                   since a port is in use

in that order. If two configurations give a place to two servers, the first one counts.

If the ensemble can be reconfigured, servers in no configuration may also connect, so that they can be added. They
authenticate like all others, except that the host of a certificate cannot be checked, since their host is not known.

Not here: dialling, and what else a configuration changes (`own_configuration`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from zab.configuration.dynamic import Ensemble, MemberAddress, ServerLine
from zab.configuration.reconfiguration import ensemble_of
from zab.host.loop.dial import Address, address_of
from zab.member.settings.config import Config
from zab.protocol.effects import MembershipsChanged
from zab.protocol.membership import Membership
from zab.quorum.ids import ServerId

__all__ = ["AddressBook", "Known"]


class Known(Collection[int]):
    """Servers that may connect, perhaps including all that are in no configuration."""

    def __init__(self, book: AddressBook, ids: Collection[int]) -> None:
        self._book = book
        self._ids = ids

    def __contains__(self, sid: object) -> bool:
        return sid in self._ids or (self._book.takes_strangers and sid not in self._book.lines)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


class AddressBook:
    """The address book of one member. It belongs to the thread of the turns."""

    def __init__(self, config: Config) -> None:
        self._own = config.server_id
        self.takes_strangers = config.membership.reconfig_enabled and not config.is_standalone
        self._of_file = config.ensemble.servers
        self.lines: Mapping[int, ServerLine] = self._of_file
        """The line of each server in the newest configuration."""
        self._before: Mapping[int, ServerLine] = self._of_file
        """The former configuration, as far as this member knows."""
        self.quorum: dict[ServerId, Address] = {}
        """Where to dial for links and snapshots; always the same dictionary."""
        self.observer_masters: dict[ServerId, Address] = {}
        """Where observers dial their masters; empty if there are none."""
        self._master_port = config.membership.observer_master_port
        self.in_force: Ensemble = config.ensemble
        self._fill([self._of_file])

    @property
    def election(self) -> dict[ServerId, Address]:
        """The election addresses of the other servers."""
        return {
            sid: address_of([(each.host, each.election_port) for each in places])
            for sid, places in self._places.items()
            if sid != self._own
        }

    def who_may_come(self) -> Collection[int]:
        return Known(self, self.lines.keys() - {self._own})

    def certified(self, is_for_host: Callable[[str], bool]) -> Collection[int]:
        """The servers with a host that the certificate covers."""
        return Known(
            self,
            frozenset(sid for sid, places in self._places.items() if any(is_for_host(each.host) for each in places)),
        )

    def changed(self, effect: MembershipsChanged) -> None:
        """Take the addresses of these configurations."""
        others = [*effect.heard] if effect.outstanding is None else [*effect.heard, effect.outstanding]
        others.sort(key=lambda one: one.version, reverse=True)
        if effect.in_force.text and effect.in_force.version != self.in_force.version:
            self._before = self.in_force.servers
            self.in_force = ensemble_of(effect.in_force.text)
        self._fill([self.in_force.servers, *(self._lines_of(each) for each in others)])

    def _lines_of(self, membership: Membership) -> Mapping[int, ServerLine]:
        return ensemble_of(membership.text).servers if membership.text else self._of_file

    def _fill(self, known: Sequence[Mapping[int, ServerLine]]) -> None:
        """`known`: the configuration in force, then the others, the newest first."""
        [in_force, *others] = known
        self.lines = dict(in_force)
        for lines in reversed(others):
            self.lines |= lines
        self._places = self._places_in(known)
        self.quorum.clear()
        self.observer_masters.clear()
        for sid, places in self._places.items():
            self.quorum[sid] = address_of([(each.host, each.quorum_port) for each in places])
            if self._master_port:
                hosts = dict.fromkeys(each.host for each in places)
                self.observer_masters[sid] = address_of([(host, self._master_port) for host in hosts])

    def _places_in(self, known: Sequence[Mapping[int, ServerLine]]) -> dict[ServerId, list[MemberAddress]]:
        found: dict[ServerId, list[MemberAddress]] = {ServerId(sid): [] for sid in self.lines}
        owners: dict[tuple[str, int], int] = {}
        for lines in (*known, self._before):
            for sid, line in lines.items():
                hosts = {host for other in known if sid in other for host in other[sid].hosts}
                for each in line.addresses:
                    ports = (each.host, each.quorum_port), (each.host, each.election_port)
                    is_its_own = all(owners.get(port, sid) == sid for port in ports)
                    if each.host in hosts and is_its_own and each not in found[ServerId(sid)]:
                        owners.update(dict.fromkeys(ports, sid))
                        found[ServerId(sid)].append(each)
        return {sid: places or list(self.lines[sid].addresses) for sid, places in found.items()}
