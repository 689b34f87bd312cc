"""The state of a server as a key, which is equal for two servers that behave the same from then on.

The key is made field by field from the peer. It leaves out what cannot matter in an explored ensemble, where time
stands still and the election is an oracle: deadlines, and the election's votes and counts. From the election it has the
possible leaders, and whether a lineage may begin. Generations of storage effects only count as current or older.

A key can be made as if the servers had other ids. Tables list the fields with ids or links; if there is a field that no
table lists, nothing is renamed (`unknown_fields`): fewer states are merged, but never wrongly.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Any, Final, TypeAlias

import attrs

from datatree.log.batch import Batch
from zab.protocol import effects as fx
from zab.protocol.membership import Membership
from zab.protocol.message import Ack, FollowerInfo
from zab.protocol.peer import Peer
from zab.protocol.roles import Following, Leading, LearnerHandler, Question
from zab.quorum.ids import Link, ServerId
from zab.simulator.explorer.site import Site

__all__ = ["IDENTITY", "LINKS_MAX", "Renaming", "ends_of", "key_of", "link_of", "renamed_link", "unknown_fields"]

Renaming: TypeAlias = tuple[ServerId, ...]
"""The new id of server 1, 2, ...; empty for none."""

IDENTITY: Final[Renaming] = ()
LINKS_MAX: Final = 16
"""The limit of links from one server to another that are open at an end; and of servers, since a link is a number."""

_LEFT_OUT: Final = frozenset(
    {
        *("effects", "election", "rng", "settings", "_started", "generation"),
        *("deadline", "next_ping", "next_tick", "heard_at", "overdue", "lag", "promising", "redial_at", "dialled"),
        "vain_at",
        "heir_until",
        # They follow from the known configurations.
        *("quorum", "servers", "is_alone", "is_membership_new"),
        "serves_since",
        "told_short",
        # Explored ensembles have no observers.
        *("attached", "attaching", "mastering", "untried", "is_attached", "unacknowledged", "unacknowledged_bytes"),
        # It only says when a turn begins.
        "awaits_durable",
        # The chain at the end of a complete history determines its content.
        *("batches", "_ends", "size_bytes", "bytes_max"),
    }
)
_SIDS: Final = frozenset(
    {"sid", "leader", "source", "heir", "acke_recv", "acknowledged", "told_of_history", "outstanding_at"}
)
_LINKS: Final = frozenset({"link", "links", "handlers", "early"})
_PLAIN: Final = frozenset(
    {
        *("state", "phase", "lineage", "accepted_epoch", "current_epoch", "amnesiac", "recorded_lineage", "conflict"),
        *("doubted", "doubted_above", "yields", "makes_way", "beginning", "_held_at_start", "is_marker_valid"),
        *("history", "committed", "delivered"),
        *("memberships", "in_force", "heard", "heard_of_lineage", "turned_at"),
        *("durable", "leading", "following", "draining", "halted", "_deferred"),
        *("base", "last"),
        *("epoch", "epoch_accepted", "epoch_current", "current_saving", "first_start", "by_marker", "established"),
        *("renewal_wanted", "renewal_above", "confirm_round", "questions", "outstanding", "outstanding_bytes"),
        *(
            "stage",
            "observer",
            "features",
            "holds",
            "marked",
            "position",
            "cursor",
            "decided",
            "reading",
            "installing",
            "served",
        ),
        *("newleader_zxid", "acked", "confirmed", "counts_after_round", "round", "token"),
        *("epoch_saved", "fetching", "newleader", "synchronized", "up_to_date", "zxid", "chain", "batches"),
        *("accepted", "current", "readmitting", "is_founder", "offered", "keeps_record"),
        *("session_keys", "secret_name", "is_told_keys", "keys"),
        *("space", "insists", "sits_out", "is_low", "is_short"),
        *("then", "message"),
    }
)
_KNOWN: Final = _LEFT_OUT | _SIDS | _LINKS | _PLAIN


def link_of(dialler: int, acceptor: int, number: int) -> Link:
    """The link with this number, 0 for the first, from one server to another."""
    assert max(dialler, acceptor, number) < LINKS_MAX
    return Link((dialler * LINKS_MAX + acceptor) * LINKS_MAX + number)


def ends_of(link: int) -> tuple[int, int]:
    """The servers of a link: the one that dialled, and the other."""
    dialler, acceptor = divmod(link // LINKS_MAX, LINKS_MAX)
    return dialler, acceptor


def renamed_link(link: int, renaming: Renaming) -> int:
    if not renaming:
        return link
    dialler, acceptor = ends_of(link)
    return link_of(renaming[dialler - 1], renaming[acceptor - 1], link % LINKS_MAX)


def key_of(site: Site, renaming: Renaming) -> object:
    """The key of a server, with all ids renamed."""
    return _Key(renaming, site).key


def unknown_fields(peer: Peer) -> set[str]:
    """The fields of a peer, and of its parts, that no table lists."""
    names = {*vars(peer), *vars(peer.history), *vars(peer.memberships)}
    for kind in (Leading, LearnerHandler, Following, Question, *fx.STORAGE_EFFECTS, fx.Send, Ack, FollowerInfo):
        names |= {field.name for field in attrs.fields(kind)}
    return names - _KNOWN


_fields_of: dict[type, tuple[tuple[str, bool], ...]] = {}
"""The relevant fields of a class: the name, and whether its numbers are servers or links."""
_PLAIN_TYPES: Final = frozenset({bool, bytes, str, type(None)})


class _Key:
    def __init__(self, renaming: Renaming, site: Site) -> None:
        self._renaming = renaming
        disk, peer = site.disk, site.peer
        logged = tuple((batch.zxid, batch.chain) for batch in disk.log)
        generation = 0 if peer is None else peer.generation
        waiting = tuple(
            (type(effect).__name__, effect.generation == generation, self._object(effect)) for effect in site.to_store
        )
        known = None if peer is None else (self._object(peer), self._election(peer))
        durable = disk.lineage, disk.accepted, disk.current, disk.member, logged, site.is_rolled_back
        self.key = site.starts, durable, waiting, known

    def _election(self, peer: Peer) -> object:
        return frozenset([self._renamed("sid", sid) for sid in peer.election.candidates]), peer.election.may_found

    def _object(self, value: Any) -> object:
        kind = type(value)
        fields = _fields_of.get(kind)
        if fields is None:
            names = [field.name for field in attrs.fields(kind)] if attrs.has(kind) else list(vars(value))
            counting = [name for name in names if name not in _LEFT_OUT]
            fields = _fields_of[kind] = tuple((name, name in _SIDS or name in _LINKS) for name in counting)
        made: list[object] = []
        for name, is_renamed in fields:
            item = getattr(value, name)
            is_plain = type(item) in _PLAIN_TYPES or (type(item) is int and not is_renamed)
            made.append(item if is_plain else self._value(name, item))
        return tuple(made)

    def _value(self, name: str, value: Any) -> object:
        kind = type(value)
        if kind in _PLAIN_TYPES or isinstance(value, Enum):
            return value
        if isinstance(value, int):
            return self._renamed(name, value)
        if kind is Batch:
            return value.zxid, value.chain
        if kind is Membership:
            return value.version, value.text  # no renaming changes a configuration
        if kind in (list, tuple, deque):
            return tuple([self._value(name, item) for item in value])
        if kind is dict:
            return frozenset([(self._renamed(name, key), self._entry(name, item)) for key, item in value.items()])
        if kind is set:
            return frozenset([self._renamed(name, item) for item in value])
        return self._object(value)

    def _entry(self, name: str, item: Any) -> object:
        # For each link, `early` has the server's id, its features, and its messages.
        if name == "early":
            sid, features, said = item
            return self._renamed("sid", sid), features, self._value("", said)
        return self._value("", item)

    def _renamed(self, name: str, value: Any) -> Any:
        if name in _SIDS and self._renaming:
            return self._renaming[value - 1] if value <= len(self._renaming) else value  # an outsider keeps its id
        return renamed_link(value, self._renaming) if name in _LINKS else value
