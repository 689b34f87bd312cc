"""Reconfiguration at a member: reads configurations, and makes the next one from a request.

A request is checked in ZooKeeper's order; the first failing check gives the error:

    reconfigEnabled is false                                       RECONFIGDISABLED
    this server is standalone, or a member has a version that      UNIMPLEMENTED
    lacks reconfiguration (`zab.protocol.features`)
    another reconfiguration is outstanding                         RECONFIGINPROGRESS
    the requested version is not the one in force                  BADVERSION
    it is invalid (`zab.configuration.reconfiguration`), has       BADARGUMENTS
    several addresses of one server without multiAddress.enabled,
    or leaves fewer than two participants, or than one if
    standaloneEnabled is false
    no quorum of it follows this leader with the whole history     NEWCONFIGNOQUORUM
    the client may not write /zookeeper/config                     NOAUTH (`datatree.prepare`)

*The first configuration of the history* is that of the leader's file: the leader proposes it once it serves. From then
on the history defines the members, and files do not. So a new server learns the members from the history that it has
synchronized, whatever its own file says.

*Handing over the lead* to another server is requested in the same way, by clients that may write /zookeeper/config. It
is done after the answer. The errors are BADARGUMENTS for a server that is no voter, and NEWCONFIGNOQUORUM for one that
does not follow.

Not here: the effect of a configuration (`zab.protocol.reconfiguration`), and its file (`zab.server`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from datatree.errors import ErrorCode, Refused
from datatree.log.batch import Batch
from datatree.log.zxid import BEFORE_ALL, Zxid
from datatree.opcodes import OpCode
from datatree.paths import CONFIG
from datatree.prepare_settings import HandOver, Reconfigure
from datatree.record import RecordError, decode_all
from datatree.requests import Reconfig
from session.identity import SessionId
from zab.configuration.dynamic import Ensemble
from zab.configuration.reconfiguration import ChangeError, ensemble_of, next_ensemble
from zab.member.requests.processor import Processor
from zab.member.settings.config import Config
from zab.protocol import handover, reconfiguration
from zab.protocol.membership import Membership
from zab.protocol.peer import Peer
from zab.protocol.peer_state import PeerState
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Quorum, rule_of

ENSEMBLE = SessionId(0)
"""The session of requests that the ensemble makes itself."""


def quorum_of(ensemble: Ensemble) -> Quorum:
    """The quorum rule of this configuration."""
    return rule_of(ensemble.participants, ensemble.groups, ensemble.weights)


def servers(ids: Iterable[int]) -> frozenset[ServerId]:
    return frozenset(map(ServerId, ids))


class ConfigReader:
    """Reads configurations from texts and batches (`zab.protocol.membership.Reader`)."""

    def of_text(self, text: bytes) -> Membership:
        return self._membership(ensemble_of(text), text)

    def of_batch(self, batch: Batch) -> Membership:
        try:
            txns = decode_all(batch.body, batch.first, batch.count)
        except RecordError as error:
            raise ValueError(f"a reconfiguration without transactions: {error}") from None
        if len(txns) != 1 or txns[0].type != OpCode.RECONFIG or txns[0].path != CONFIG:
            raise ValueError("it is flagged as a reconfiguration, but is something else")
        text = txns[0].data or b""
        ensemble = ensemble_of(text)
        if ensemble.version != batch.zxid:
            raise ValueError(f"a reconfiguration with version {ensemble.version:x}")
        return self._membership(ensemble, text)

    def _membership(self, ensemble: Ensemble, text: bytes) -> Membership:
        return Membership(
            Zxid(ensemble.version), quorum_of(ensemble), servers(ensemble.servers), servers(ensemble.observers), text
        )


READER = ConfigReader()


def in_force(config: Config, peer: PeerState) -> Ensemble:
    """The configuration that is known to be committed; that of the file until the history has one."""
    membership = peer.memberships.in_force
    return ensemble_of(membership.text) if membership.version else config.ensemble


def config_in_force(config: Config, peer: PeerState) -> Config:
    """The configuration of this server, with the ensemble that is in force."""
    return attrs.evolve(config, ensemble=in_force(config, peer))


def reconfigure_of(config: Config, peer: Peer) -> Reconfigure | None:
    """The function that makes the text of the next configuration, while this member leads."""
    if not config.membership.reconfig_enabled:
        return None

    def reconfigure(
        joining: bytes | None, leaving: bytes | None, members: bytes | None, version: int, zxid: int
    ) -> bytes:
        if config.is_standalone:
            raise Refused(ErrorCode.UNIMPLEMENTED)
        if not reconfiguration.is_understood(peer):
            raise Refused(ErrorCode.UNIMPLEMENTED)
        if reconfiguration.is_outstanding(peer):
            raise Refused(ErrorCode.RECONFIGINPROGRESS)
        if version not in (-1, peer.memberships.in_force.version):
            raise Refused(ErrorCode.BADVERSION)
        try:
            after = next_ensemble(in_force(config, peer), joining, leaving, members, zxid)
        except ChangeError:
            raise Refused(ErrorCode.BADARGUMENTS) from None
        if not config.addresses.enabled and any(line.others for line in after.servers.values()):
            raise Refused(ErrorCode.BADARGUMENTS)
        if len(after.participants) < (2 if config.membership.standalone_enabled else 1):
            raise Refused(ErrorCode.BADARGUMENTS)
        text = str(after).encode()
        if not reconfiguration.has_quorum_of(peer, READER.of_text(text)):
            raise Refused(ErrorCode.NEWCONFIGNOQUORUM)
        return text

    return reconfigure


def hand_over_of(config: Config, peer: Peer, tell_later: Callable[[ServerId, int], None]) -> HandOver:
    """The function that hands over the lead, while this member leads. It calls `tell_later` with the heir and the zxid
    after which the lead goes to it."""

    def hand_over(server_id: int, zxid: int) -> None:
        if config.is_standalone:
            raise Refused(ErrorCode.UNIMPLEMENTED)
        heir = ServerId(server_id)
        if heir not in peer.quorum.voters:
            raise Refused(ErrorCode.BADARGUMENTS)
        if heir == peer.settings.sid:
            return
        if reconfiguration.is_outstanding(peer):
            raise Refused(ErrorCode.RECONFIGINPROGRESS)
        if handover.why_not(peer, heir):
            raise Refused(ErrorCode.NEWCONFIGNOQUORUM)
        tell_later(heir, zxid)

    return hand_over


class Heir:
    """The server that gets the lead once a zxid is applied and answered."""

    def __init__(self) -> None:
        self.awaited: tuple[ServerId, int] | None = None

    def tell_later(self, heir: ServerId, zxid: int) -> None:
        self.awaited = heir, zxid

    def drop_role(self) -> None:
        """Forget the heir: the lead is over."""
        self.awaited = None

    def is_due(self, applied: int) -> bool:
        return self.awaited is not None and applied >= self.awaited[1]

    def take(self) -> ServerId:
        assert self.awaited is not None
        (heir, _), self.awaited = self.awaited, None
        return heir


def lacks_first(config: Config, peer: Peer) -> bool:
    """Whether a leader that begins to serve has to propose the first configuration of the history."""
    return config.membership.reconfig_enabled and not config.is_standalone and not peer.memberships.is_any_in_history


def submit_first(config: Config, peer: Peer, processor: Processor) -> bool:
    """Propose the first configuration, once all connected members understand it. True: it is proposed."""
    is_understood = reconfiguration.is_understood(peer)
    if is_understood:
        body = Reconfig(None, None, str(config.ensemble).encode(), BEFORE_ALL).encode()
        processor.submit(ENSEMBLE, 0, int(OpCode.RECONFIG), body, None)
    return is_understood
