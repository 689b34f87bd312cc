"""What recovery finds on the disk of a member (`datatree.recovery.recover`)."""

from attrs import define, field

from datatree.log.batch import Batch, Position
from datatree.log.session_keys import NamedKey
from datatree.log.transaction_log import LogContents
from datatree.tree import DataTree


@define
class Damage:
    """Something on disk that is not as it should be: where, what, and what is or has to be done about it."""

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
    """The highest high-water mark known; the tree stands there."""
    base: Position
    """Before the first of `recent`."""
    recent: list[Batch]
    """The newest batches, `pending` included, to the end of the log."""
    pending: list[Batch]
    """The batches above `mark`: durable, and not known to be committed."""
    log: LogContents
    snapshot_zxid: int
    """Of the snapshot that was loaded; 0 when there was none."""
    epochs: tuple[int, int] | None
    """acceptedEpoch and currentEpoch, or None when they are not there or not valid."""
    amnesiac: bool
    """No valid member record of this server, or no valid epoch files, or keys of sessions that cannot be read, or a
    history that is damaged."""
    marked: bool
    """It holds nothing, and the operator left the file `initialize`: it never did."""
    beginning: int = 0
    """The zxid of the snapshot, if that is what its lineage began with after a restore or a forced recovery; else 0."""
    founder: bool = False
    """Forced recovery made the lineage here: nobody had it before."""
    session_keys: list[NamedKey] = field(factory=list)
    """Those of the lineage, the one in use first."""
    damage: list[Damage] = field(factory=list)
    """Not empty: the history may be neither continued nor voted with."""
    problems: list[Damage] = field(factory=list)
    """To be reported; the history is whole without what they name."""
    proven_zxid: int = 0
    """The highest zxid of an intact batch seen, after a hole too."""
    replayed_count: int = 0
    """Transactions of the log that were applied to the tree of the snapshot."""
    mismatch_zxid: int | None = None
    """Where the tree does not have the digest that its leader's tree had; None when it always has."""

    @property
    def last(self) -> Position:
        """Where the history ends: zxid and chain of the last durable batch."""
        return self.log.last

    @property
    def empty(self) -> bool:
        """No batch and no snapshot above zxid 0."""
        return self.log.last[0] == 0 and not self.damage
