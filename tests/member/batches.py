"""The configuration of a member, and batches for it."""

from datatree.log.batch import Batch, build
from zab.member.settings.zoo_cfg import parse

CONFIG = parse("dataDir=/nowhere\nclientPort=2181", "zoo.cfg")


def batch_of(count: int, flags: int = 0, size: int = 50) -> Batch:
    return build(
        bytes(16), epoch=1, first=1 << 32 | 1, count=count, time=1, flags=flags, mark=0, applied=0, digest=0,
        body=bytes(size)
    )  # fmt: skip
