"""Checks for the fields of messages (`zab.wire.records`): server ids, zxids, epochs, chains, links."""

from datatree.log.zxid import EPOCH_MAX, Epoch
from zab.protocol.states import Holds, State
from zab.wire.records import is_bytes, is_int, is_list_of, is_row

NO_VOTE = Epoch(-1)
"""The epoch in the ACKEPOCH of a learner that had already accepted this epoch, perhaps for another leader."""

SERVER_ID = is_int(0, (1 << 63) - 1)
ZXID = is_int(0, (1 << 63) - 1)
EPOCH = is_int(0, EPOCH_MAX)
EPOCH_OR_NO_VOTE = is_int(NO_VOTE, EPOCH_MAX)
DIGEST = is_int(0, (1 << 64) - 1)
STATE = is_int(min(State), max(State))
HOLDS = is_int(min(Holds), max(Holds))
CHAIN = is_bytes(16, 16)
LINK = is_int(1, (1 << 63) - 1)
IDENTITIES = is_list_of(is_row(is_bytes(0, 256), is_bytes(0, 4096)))


def are_session_keys(value: object) -> bool:
    return type(value) is list and 0 < len(value) <= 2 and is_list_of(is_row(is_bytes(8, 8), is_bytes(32, 32)))(value)


def is_lineage(value: object) -> bool:
    return value == b"" or CHAIN(value)
