"""What a broker's step is told, and what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs
from attrs import frozen

from zab.coordination.driver import FromCoordination, Submit
from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import Uuid
from zab.partition.cleaning import Cleaned, CleanJob
from zab.partition.coordinator_log import LoadPart, PartLoaded
from zab.partition.links.messages import FromLinks, Message
from zab.partition.log.checkpoints import MetaProperties, TopicPartition
from zab.partition.log.directory import LogDirectory
from zab.partition.log.file_effects import Confirmed, Failed, FileEffect
from zab.partition.log.log import Log
from zab.partition.replica.record_search import Found, RecordSearch
from zab.partition.requests.connection import ClientConnection
from zab.partition.settings.listeners import Endpoint
from zab.service.audit import Record
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected

# --------------------------------------------------------------------------------------------------------------- inputs


@frozen
class LogsOpened:
    """The logs of this broker, recovered; `notes` are sentences for the journal."""

    directory: LogDirectory
    logs: Mapping[TopicPartition, tuple[Uuid, Log]]
    """The topic id and the log of each partition that has files."""
    notes: tuple[str, ...] = ()


@frozen
class LogsRefused:
    """They cannot be opened: the broker must not run."""

    reason: str


@frozen
class RecordFound:
    """What a search came to."""

    token: int
    result: Found | ErrorCode


@frozen
class SessionLives:
    """The session with the coordination service surely lives until then (monotonic ms), also if no server answers
    again. It comes before all other inputs of a turn."""

    until_ms: int


FromClient: TypeAlias = (
    ClientConnected[ClientConnection] | ClientBytes[ClientConnection] | ClientClosed[ClientConnection]
)
Input: TypeAlias = (
    FromClient
    | FromCoordination
    | SessionLives
    | FromLinks
    | Confirmed
    | Failed
    | LogsOpened
    | LogsRefused
    | RecordFound
    | PartLoaded
    | Cleaned
)

# -------------------------------------------------------------------------------------------------------------- effects


@attrs.define
class Effects:
    """What a step asks for."""

    files: list[FileEffect] = attrs.Factory(list)
    """Changes of files, in order; each `Confirm` is answered."""
    submits: list[Submit] = attrs.Factory(list)
    """Operations for the coordination service."""
    opens: MetaProperties | None = None
    """Open the logs, as this broker of this cluster; answer with `LogsOpened` or `LogsRefused`."""
    searches: list[tuple[int, RecordSearch]] = attrs.Factory(list)
    """Searches by their token; answer with `RecordFound`."""
    loads: list[LoadPart] = attrs.Factory(list)
    """Parts of internal topics to be read; answer with `PartLoaded`."""
    cleans: list[CleanJob] = attrs.Factory(list)
    """Steps of compaction; answer with `Cleaned`."""
    dirty: dict[ClientConnection, None] = attrs.Factory(dict)
    """Connections to be flushed or closed."""
    dials: list[tuple[int, Endpoint]] = attrs.Factory(list)
    """Open links to these brokers, which listen there; answer each with `LinkUp` or `DialFailed`."""
    sends: list[tuple[int, Message]] = attrs.Factory(list)
    """Messages for links, in order; those for links that are gone are dropped."""
    breaks: list[tuple[int, str]] = attrs.Factory(list)
    """Break off these links, for these reasons; answer with `LinkDown`."""
    notes: list[str] = attrs.Factory(list)
    """Sentences for the journal: what happens."""
    reports: list[str] = attrs.Factory(list)
    """Sentences for the journal that need the operator's attention."""
    audit: list[Record] = attrs.Factory(list)
    """Records of the audit log."""
    failure: str | None = None
    """Why the broker must end."""
