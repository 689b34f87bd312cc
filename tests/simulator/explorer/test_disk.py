"""The explored disk is what the real storage leaves: the same effects, and recovery makes the same of both."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from datatree.log.batch import Batch, build
from datatree.log.transaction_log import TransactionLog
from datatree.log.zxid import Epoch, Zxid, make_zxid
from datatree.recovery.recover import recover
from tests.rigs.direct.lone_peer import transactions
from zab.member.membership.restore import restored_of
from zab.member.storage.storage import Storage
from zab.protocol import effects as fx
from zab.protocol.peer_settings import Settings
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Majority
from zab.simulator.explorer.site import Disk, Site
from zab.simulator.world.disk import FaultyDisk

LINEAGE = bytes(range(16))
SID = ServerId(1)


class Both:
    """The explored disk and a real storage on a disk in memory, given the same effects."""

    def __init__(self) -> None:
        settings = Settings(SID, Majority(frozenset({SID})), frozenset({SID}))
        self.site = Site(settings, Disk())
        self.real = FaultyDisk()
        self.storage = self._storage()

    def _storage(self) -> Storage:
        log = TransactionLog(self.real, recover(self.real, SID).log)
        return Storage(self.real, log, SID, lambda sentence, reason: pytest.fail(f"{sentence}: {reason}"))

    def take(self, effect: fx.AppendBatches | fx.TruncateLog | fx.ResetLog | fx.SaveEpochs | fx.SaveMember) -> None:
        self.storage.perform([effect])
        self.site.to_store.append(effect)
        self.site.write()

    def restart(self) -> None:
        """What recovery finds is the same, except for what only the real one can have."""
        self.real.kill()
        found = restored_of(recover(self.real, SID))
        explored = self.site.disk.restored()
        if found.amnesiac:
            # Nothing else of an amnesiac's history is believed.
            explored = attrs.evolve(explored, mark=found.mark, base=found.base, batches=found.batches)
        assert attrs.evolve(found, marked=False, session_keys=[]) == explored
        self.storage = self._storage()
        self.site.disk = attrs.evolve(self.site.disk, lineage=found.lineage)
        if not found.lineage:
            self.take(fx.ResetLog(0, LINEAGE))


def batch_behind(disk: Disk, epoch: int) -> Batch:
    last, chain = disk.position
    first = Zxid(last + 1) if last >> 32 == epoch else make_zxid(Epoch(epoch), 1)
    body = transactions(first, 1, b"x")
    mark = disk.log[0].zxid if disk.log else Zxid(0)
    return build(
        chain, epoch=Epoch(epoch), first=first, count=1, time=1, flags=0, mark=mark, applied=0, digest=0, body=body
    )


def test_recovery_makes_the_same_of_both() -> None:
    for seed in range(60):
        rng, both = Random(seed), Both()
        both.restart()
        for _ in range(rng.randrange(1, 12)):
            disk = both.site.disk
            kind = rng.choice(("append", "append", "append", "truncate", "epochs", "member", "restart"))
            if kind == "append":
                both.take(fx.AppendBatches(0, [batch_behind(disk, max(disk.accepted, 1))]))
            elif kind == "truncate" and len(disk.log) > 1:
                cut = disk.log[rng.randrange(len(disk.log) - 1)]
                both.take(fx.TruncateLog(0, cut.zxid, cut.chain))
            elif kind == "epochs":
                accepted = Epoch(disk.accepted + rng.randrange(2))
                both.take(fx.SaveEpochs(0, accepted, rng.choice((disk.current, accepted))))
            elif kind == "member" and disk.accepted:
                both.take(fx.SaveMember(0, disk.lineage))
            elif kind == "restart":
                both.restart()
        both.restart()
