"""A member knows what to do with every opcode: each has its row in every table that an operation of its class needs.

CONTRIBUTING.md has the recipe for a new one; this says which row of it is missing.
"""

import pytest

from datatree.opcodes import LOGGED_AS, MULTI_READS, MULTI_WRITES, READS, TYPES, WRITES, Class, OpCode
from datatree.prepare import Prepare
from datatree.request_decoding import DECODERS
from datatree.tree import DataTree
from zab.jute.replies import _DECODERS as REPLY_DECODERS
from zab.member.requests.connection_requests import ANSWERS, PROMPT
from zab.member.requests.reads import READS as READ_ANSWERS
from zab.member.requests.write_replies import WRITTEN

SILENT = {
    *(OpCode.DELETE, OpCode.CLOSE_SESSION, OpCode.CHECK, OpCode.HAND_OVER),
    *(OpCode.CHECK_NOT_EXISTS, OpCode.TRY_REMOVE, OpCode.REMOVE_RECURSIVE, OpCode.CHECK_STAT),
}
"""Their replies have no body."""
REFUSED = {OpCode.RECONFIG}
"""A write that members answer themselves, with a refusal."""


@pytest.mark.parametrize("opcode", sorted(WRITES | MULTI_WRITES))
def test_a_write(opcode: OpCode) -> None:
    prepare = Prepare(DataTree())
    assert opcode in DECODERS
    assert (opcode in {**prepare._operations, **prepare._long_operations}) == (opcode in WRITES)
    assert (opcode in prepare._parts) == (opcode in MULTI_WRITES)
    assert opcode in WRITTEN or opcode in REFUSED
    assert (opcode in REPLY_DECODERS) == (opcode not in SILENT)
    assert (opcode.effect is None) == (opcode in LOGGED_AS)
    assert LOGGED_AS.get(opcode, {opcode}) <= TYPES


@pytest.mark.parametrize("opcode", sorted(READS | MULTI_READS))
def test_a_read(opcode: OpCode) -> None:
    assert opcode in DECODERS
    assert opcode in READ_ANSWERS
    assert opcode in REPLY_DECODERS


@pytest.mark.parametrize("opcode", [opcode for opcode in OpCode if opcode.class_ is Class.LOCAL])
def test_what_concerns_the_connection(opcode: OpCode) -> None:
    assert opcode in DECODERS
    assert (opcode in ANSWERS) + (opcode in PROMPT) + (opcode == OpCode.SYNC) == 1


@pytest.mark.parametrize("opcode", list(OpCode))
def test_a_row(opcode: OpCode) -> None:
    """The type of a transaction is one signed byte of its record, and a name is what ZooKeeper's tools write."""
    assert opcode.spelled.lower() == opcode.name.replace("_", "").lower()
    assert opcode.spelled[0].islower()
    if opcode.effect is not None:
        assert -128 <= opcode < 128
        assert opcode.class_ in (Class.WRITE, Class.NEVER)
