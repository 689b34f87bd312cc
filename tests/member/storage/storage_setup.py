"""A storage on a real directory, and histories for it."""

from datatree.log.batch import build, genesis
from datatree.log.transaction_log import TransactionLog
from datatree.recovery.recover import recover
from zab.host.storage.disk import RealDisk
from zab.member.storage.storage import Storage

LINEAGE = bytes(range(16))


def say_nothing(_sentence, _reason):
    pass


def open_storage(directory, *, server_id=1, lineage=LINEAGE):
    """The storage of a directory; an empty one begins this lineage."""
    disk = RealDisk(str(directory))
    found = recover(disk, server_id)
    storage = Storage(disk, TransactionLog(disk, found.log), server_id, say_nothing)
    if not found.lineage:
        storage.log.reset(0, genesis(lineage), lineage)
    return storage


def batches_from(storage, count, *, body=b"body", epoch=1):
    """Batches of one transaction each, which follow what the storage has logged."""
    zxid, chain = storage.log.last
    batches = []
    for _ in range(count):
        first = zxid + 1 if zxid >> 32 == epoch else (epoch << 32) + 1
        batch = build(chain, epoch=epoch, first=first, count=1, time=1, flags=0, mark=0, applied=0, digest=0, body=body)
        batches.append(batch)
        zxid, chain = batch.zxid, batch.chain
    return batches
