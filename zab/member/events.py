"""The inputs and effects of a `Member`, and those that its turn (`zab.member.turn`) adds: the unions of what the
protocol and the rooms define in their `events`.

One step of the member takes all inputs of one turn. Effects are answered with later inputs, as `zab.protocol.events`
says for those of the peer.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from zab.member.clients.connection import ClientConnection
from zab.member.clients.events import LoginStepped, UsersRead, WriteAudit
from zab.member.storage.events import (
    ChangesRead,
    ChooseSnapshot,
    DamageFound,
    FetchFailed,
    FetchTree,
    LookAtSpace,
    LookBackSlice,
    LookedBack,
    ReadChanges,
    SnapshotAsked,
    SnapshotChosen,
    SnapshotFailed,
    SnapshotFetched,
    SnapshotTaken,
    SnapshotUnusable,
    StorageFailed,
    TakeSnapshot,
    TreeInstalled,
)
from zab.member.trees.events import KeepSnapshot, RebuildFailed, RebuildTree, TreeRebuilt
from zab.member.words.events import LookAround, LookedAround
from zab.protocol.effects import Effect
from zab.protocol.events import Event
from zab.service.spans import Span
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected

# ------------------------------------------------------------------------------------------------------------- inputs


Input: TypeAlias = (
    Event
    | ClientConnected[ClientConnection]
    | ClientBytes[ClientConnection]
    | ClientClosed[ClientConnection]
    | SnapshotTaken
    | SnapshotFailed
    | TreeInstalled
    | TreeRebuilt
    | RebuildFailed
    | SnapshotFetched
    | FetchFailed
    | SnapshotChosen
    | ChangesRead
    | LookedBack
    | UsersRead
    | LoginStepped
    | SnapshotAsked
    | LookedAround
    | DamageFound
)

# ---------------------------------------------------------------------------- answers for the turn alone


FOR_THE_TURN: Final = (SnapshotUnusable, StorageFailed)
Answer: TypeAlias = Input | SnapshotUnusable | StorageFailed
"""Answers of storage and tasks."""

# ------------------------------------------------------------------------------------------------------------ effects


@attrs.define
class ExportSpans:
    """Export these spans to the collector. Has no answer."""

    spans: list[Span]


@attrs.define
class Warn:
    """Warn the operator of something that needs attention. Has no answer."""

    text: str


MemberEffect: TypeAlias = (
    Effect
    | TakeSnapshot
    | RebuildTree
    | ChooseSnapshot
    | FetchTree
    | KeepSnapshot
    | LookAtSpace
    | ReadChanges
    | LookBackSlice
    | LookAround
    | WriteAudit
    | ExportSpans
    | Warn
)

# ---------------------------------------------------------------------------------- effects that the turn adds
