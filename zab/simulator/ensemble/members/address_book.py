"""The servers that a simulated member knows and dials: those of the configuration in force, and of the next one.

It works like `zab.server.address_book`, without addresses: any server may connect, since the ensemble can be
reconfigured, but only known servers are dialled.
"""

from __future__ import annotations

from collections.abc import Callable

from zab.configuration.reconfiguration import ensemble_of
from zab.member.membership.reconfiguring import servers
from zab.member.settings.zoo_cfg import Config
from zab.protocol.effects import MembershipsChanged
from zab.protocol.membership import Membership, Memberships
from zab.quorum.ids import ServerId

__all__ = ["AddressBook"]


class AddressBook:
    """The address book of one process. `meet` is called when the known servers change."""

    def __init__(self, config: Config, known: Memberships) -> None:
        self._own = ServerId(config.server_id)
        self._of_file = self._in_force = servers(config.ensemble.servers)
        self.others = self._in_force - {self._own}
        self.meet: Callable[[frozenset[ServerId]], None] = lambda _others: None
        self.changed(MembershipsChanged(known.in_force, known.outstanding, known.heard_of))

    def changed(self, effect: MembershipsChanged) -> None:
        if effect.in_force.text:
            self._in_force = self._servers_of(effect.in_force)
        known = [*effect.heard] if effect.outstanding is None else [*effect.heard, effect.outstanding]
        others = self._in_force.union(*map(self._servers_of, known)) - {self._own}
        if others != self.others:
            self.others = others
            self.meet(others)

    def _servers_of(self, membership: Membership) -> frozenset[ServerId]:
        return servers(ensemble_of(membership.text).servers) if membership.text else self._of_file
