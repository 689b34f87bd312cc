"""What recovery finds on a member's disk (`datatree.recovery.recover`)."""

from attrs import define, field

from datatree.log.batch import Batch, Position
from datatree.log.session_keys import NamedKey
from datatree.log.transaction_log import LogContents
from datatree.tree import DataTree


@define
class Damage:
    """Something wrong on disk: where, what, and what is done about it, or has to be."""

    path: str
    offset: int
    reason: str
    action: str

    def __str__(self) -> str:
        return f"{self.path} at offset {self.offset}: {self.reason}; {self.action}"


@define
class Recovered:
    """The state of a member at its start."""

    tree: DataTree
    lineage: bytes
    """16 bytes, or empty when nothing on disk has one."""
    mark: int
    """The highest known high-water mark; the tree is at this zxid."""
    base: Position
    """The position before the first of `recent`."""
    recent: list[Batch]
    """The newest batches, `pending` included, to the end of the log."""
    pending: list[Batch]
    """The batches above `mark`: durable, and not known to be committed."""
    log: LogContents
    snapshot_zxid: int
    """The zxid of the loaded snapshot; 0 if there was none."""
    epochs: tuple[int, int] | None
    """acceptedEpoch and currentEpoch, or None if they are missing or invalid."""
    amnesiac: bool
    """This server has no valid member record, or no valid epoch files, or its session keys cannot be read, or its
    history is damaged."""
    marked: bool
    """It holds nothing, and the operator left the file `initialize`: it never held anything."""
    beginning: int = 0
    """The zxid of the snapshot if its lineage began with it, after a restore or a forced recovery; otherwise 0."""
    founder: bool = False
    """A forced recovery made the lineage here: no other member had it before."""
    session_keys: list[NamedKey] = field(factory=list)
    """The session keys of the lineage, the one in use first."""
    damage: list[Damage] = field(factory=list)
    """If not empty, the member must neither continue the history nor vote with it."""
    problems: list[Damage] = field(factory=list)
    """To be reported; the history is complete without what they name."""
    proven_zxid: int = 0
    """The highest zxid of any intact batch, even after a hole."""
    replayed_count: int = 0
    """How many transactions of the log were applied to the tree of the snapshot."""
    mismatch_zxid: int | None = None
    """Where the tree's digest differs from that of its leader's tree; None if it never does."""

    @property
    def last(self) -> Position:
        """Where the history ends: zxid and chain of the last durable batch."""
        return self.log.last

    @property
    def empty(self) -> bool:
        """Whether there is no batch, and no snapshot above zxid 0."""
        return self.log.last[0] == 0 and not self.damage
