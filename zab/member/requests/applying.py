"""Applies committed batches to the tree and answers them, in slices of a turn's budget (H2 turn budget).

Between two slices of one batch nobody may look at the tree (`is_between_states`): clients are not read from, and
nothing is proposed (H5 slices). Messages between members go on. While another tree is made (`hold`), nothing is
applied.

Not here: what a transaction does (`datatree.tree`), and who is answered (`processor`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from datatree.digest import DIGEST_VERSION
from datatree.log.batch import Batch
from datatree.log.zxid import BEFORE_ALL, Zxid
from datatree.record import RecordError
from datatree.tree import DataTree
from zab.member.requests.keeper_probes import show_features
from zab.member.requests.limits import Limits
from zab.member.requests.processor import Processor
from zab.member.requests.serving import Serving
from zab.member.state.digests import Difference, Digests

APPLIED_COUNT_MAX: Final = 500
"""Transactions applied in a turn, with their parts, or in a slice of one batch: some 3 ms of sets, 10 ms of creates."""
APPLIED_BYTES_MAX: Final = 4 << 20
"""Bytes of the batches applied in a turn; or one larger batch: some 3 ms of digests and copies."""


class Applier:
    """Applies committed batches to the tree of one member. Attributes without an underscore may be read."""

    def __init__(
        self,
        processor: Processor,
        limits: Limits,
        serving: Serving,
        differs: Callable[[Difference], None],
        applied: Callable[[Batch], None],
    ) -> None:
        """`differs`: called when the digest in a batch differs from this tree's; it may stop applying (`hold`).
        `applied`: called when a batch is applied."""
        self._processor = processor
        self._state = processor.state
        self._limits = limits
        self._serving = serving
        self._differs = differs
        self._applied = applied
        self.committed: deque[Batch] = deque()
        """Committed batches that are not applied yet."""
        self.applied = 0
        """The batch end that the tree is at, or passed last."""
        self.digests = Digests()
        self.is_held = False
        """Whether nothing is applied, since another tree is being made."""
        self.is_between_states = False
        """Whether a batch is applied in part."""
        self._delivery: tuple[Batch, Iterator[None]] | None = None
        """The batch that is being applied, and its remaining slices."""

    @property
    def tree(self) -> DataTree:
        return self._state.tree

    @property
    def is_whole(self) -> bool:
        """Whether the tree has everything that was committed, as far as this member knows."""
        return not (self.committed or self.is_between_states or self.is_held)

    def hold(self) -> None:
        """Apply nothing more, except the rest of a batch that is applied in part."""
        self.is_held = True

    def release(self) -> None:
        """Apply batches again."""
        self.is_held = False

    def turn(self) -> None:
        """Apply what is committed, up to the budget of a turn."""
        count = size = 0
        while (self.committed or self._delivery is not None) and not self.is_held:
            if count >= APPLIED_COUNT_MAX or size >= APPLIED_BYTES_MAX:
                return
            if self._delivery is None:
                if self._state.event_sender.waiting and self._state.event_sender.is_full:
                    return
                batch = self.committed.popleft()
                own = self.digests.find(batch.applied) if batch.digest_version == DIGEST_VERSION else None
                if own is not None and own != batch.digest:
                    # Either this tree or the leader's is wrong (E5 digests).
                    self._differs(Difference(Zxid(batch.applied), own, batch.digest))
                self._delivery = batch, self._processor.deliver(batch)
                if self.is_held:
                    self.deliver_rest()
                    return
            batch, _ = self._delivery
            is_rest = self.is_between_states
            if not self._deliver_slice() or is_rest:
                # After a batch that took several turns, clients that waited meanwhile come first.
                return
            count, size = count + self._processor.delivered, size + len(batch.raw)

    def _deliver_slice(self) -> bool:
        """Apply the next slice of a batch. True: it was the last one."""
        assert self._delivery is not None
        batch, steps = self._delivery
        try:
            for _ in steps:
                self.is_between_states = True
                self._limits.limit_output()
                return False
        except RecordError as error:
            # It was numbered, sealed and committed like any other batch: no member can go on after it.
            self._serving.halt(f"batch {batch.zxid:#x}, which is committed, holds no transactions: {error}")
            return False
        self._delivery, self.is_between_states = None, False
        self.applied = batch.zxid
        self.digests.record(batch.zxid, self._state.tree.digest)
        self._applied(batch)
        return True

    def deliver_rest(self) -> None:
        """Apply the rest of the batch that is being applied, however long it takes."""
        while self._delivery is not None:
            self._deliver_slice()

    def take_tree(self, tree: DataTree, zxid: Zxid = BEFORE_ALL, digest: int = 0) -> None:
        """Replace the tree by one that has this digest at this zxid. No client is served meanwhile."""
        assert not self._serving.is_on
        config = self._state.config
        tree.config = str(config.ensemble).encode()
        tree.past_acls.count_max = config.requests.max_past_acls
        if config.tree.keeper_extensions_enabled:
            show_features(tree)
        self._state.take_tree(tree)
        self._delivery, self.is_between_states = None, False
        self.applied = tree.applied
        self.digests.clear()
        if zxid > 0:
            self.digests.record(zxid, digest)
        self.digests.record(tree.applied, tree.digest)
