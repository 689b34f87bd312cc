"""Where the servers of the ensemble are: of every configuration that this member knows.

At first that of its file. Others come with reconfigurations (`MembershipsChanged`): then the book says what the newest
of them says of each server, and the links of the election are kept to these.

Where the ensemble can be reconfigured, servers of no configuration may come too (*strangers*), so that one can take
them in. They prove who they are as all others do. Only that a certificate is for their host cannot be seen, since
nobody knows their host.

Not here: dialling, and what a configuration decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from zab.configuration.dynamic import Ensemble, ServerLine
from zab.configuration.reconfiguration import ensemble_of
from zab.events import MembershipsChanged
from zab.ids import ServerId
from zab.member.settings import Config
from zab.server.dial import Address, address_of

__all__ = ["AddressBook", "Known"]


class Known(Collection[int]):
    """Servers that may come, and perhaps whoever is in no configuration."""

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
    """Of one member. It belongs to the thread of the turns."""

    def __init__(self, config: Config) -> None:
        self._own = config.server_id
        self.takes_strangers = config.reconfig_enabled and not config.is_standalone
        self._of_file = config.ensemble.servers
        self.lines: dict[int, ServerLine] = dict(self._of_file)
        self.quorum: dict[ServerId, Address] = {}
        """Where to dial for links and snapshots; always the same dictionary."""
        self.observer_masters: dict[ServerId, Address] = {}
        """The same, of observers to their masters; empty where there are none."""
        self._master_port = config.observer_master_port
        self.meet: Callable[[Mapping[ServerId, Address]], None] = lambda _others: None
        """Told of the others' election ports when they are others than before."""
        self.in_force: Ensemble = config.ensemble
        self.comes_into_force: Callable[[Ensemble], None] = lambda _ensemble: None
        """Told of each configuration that is known to be committed."""
        self._fill()

    @property
    def election(self) -> dict[ServerId, Address]:
        """Of the others."""
        return {
            ServerId(sid): address_of([(each.host, each.election_port) for each in line.addresses])
            for sid, line in self.lines.items()
            if sid != self._own
        }

    def who_may_come(self) -> Collection[int]:
        return Known(self, self.lines.keys() - {self._own})

    def certified(self, is_for_host: Callable[[str], bool]) -> Collection[int]:
        """Those for one of whose hosts a certificate is."""
        return Known(self, frozenset(sid for sid, line in self.lines.items() if any(map(is_for_host, line.hosts))))

    def changed(self, effect: MembershipsChanged) -> None:
        """Reach the servers of all of these."""
        known = [effect.in_force, *effect.heard]
        known += [] if effect.outstanding is None else [effect.outstanding]
        lines: dict[int, ServerLine] = {}
        for membership in sorted(known, key=lambda one: one.version):
            if membership.text:
                lines |= ensemble_of(membership.text).servers
            else:
                lines |= self._of_file
        if effect.in_force.text and effect.in_force.version != self.in_force.version:
            self.in_force = ensemble_of(effect.in_force.text)
            self.comes_into_force(self.in_force)
        if lines != self.lines:
            self.lines = lines
            self._fill()
            self.meet(self.election)

    def _fill(self) -> None:
        self.quorum.clear()
        self.observer_masters.clear()
        for sid, line in self.lines.items():
            if self._master_port:
                hosts = dict.fromkeys(each.host for each in line.addresses)
                self.observer_masters[ServerId(sid)] = address_of([(host, self._master_port) for host in hosts])
            self.quorum[ServerId(sid)] = address_of([(each.host, each.quorum_port) for each in line.addresses])
