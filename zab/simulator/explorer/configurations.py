"""Configurations of explored ensembles, as minimal texts: `200000001 1,3`, version and voters."""

from __future__ import annotations

from collections.abc import Iterable

from datatree.log.batch import RECONFIG, Batch, build, genesis
from datatree.log.zxid import BEFORE_ALL, Epoch, Zxid, make_zxid
from datatree.opcodes import OpCode
from datatree.record import Txn, decode_all, encode
from zab.protocol.membership import Membership
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Majority

__all__ = ["Reader", "body_of", "first_of", "reconfigurations_of", "text_of"]


def text_of(version: int, voters: Iterable[int]) -> bytes:
    return f"{version:x} {','.join(map(str, sorted(voters)))}".encode()


def body_of(zxid: Zxid, data: bytes) -> bytes:
    """The body of a batch of one transaction. Explored ensembles only write data of `/`."""
    return encode(Txn(zxid, 0, 0, 0, int(OpCode.SET_DATA), 0, b"/", data, None))


def first_of(lineage: bytes, epoch: Epoch, voters: Iterable[int]) -> Batch:
    """The batch in which the first leader of a lineage writes the configuration of its file."""
    first = make_zxid(epoch, 1)
    return build(
        genesis(lineage), epoch=epoch, first=first, count=1, time=0, flags=RECONFIG, mark=BEFORE_ALL, applied=0,
        digest=0, body=body_of(first, text_of(first, voters)),
    )  # fmt: skip


class Reader:
    """Reads the texts of `text_of`."""

    def of_text(self, text: bytes) -> Membership:
        version, _, ids = text.decode().partition(" ")
        voters = frozenset(ServerId(int(sid)) for sid in ids.split(","))
        return Membership(Zxid(int(version, 16)), Majority(voters), voters, text=text)

    def of_batch(self, batch: Batch) -> Membership:
        (txn,) = decode_all(batch.body, batch.first, batch.count)
        assert txn.data is not None
        membership = self.of_text(txn.data)
        assert membership.version == batch.zxid
        return membership


def reconfigurations_of(batches: Iterable[Batch]) -> list[tuple[Batch, Membership]]:
    """The reconfigurations among these batches, in order."""
    reader = Reader()
    return [(batch, reader.of_batch(batch)) for batch in batches if batch.flags & RECONFIG]
