"""Why a request was refused: the operations of one connection, and of a transaction."""

from itertools import product

import pytest

from datatree.errors import ErrorCode
from datatree.opcodes import MULTI_READS, MULTI_WRITES, READS, WRITES, OpCode
from datatree.paths import is_valid
from zab.client.core.reasons import path_fault, reason

ASK_NO_ACL = {OpCode.MULTI, OpCode.MULTI_READ, OpCode.GET_EPHEMERALS, OpCode.CLOSE_SESSION}
"""Cases with parts ask for each part."""


def test_only_what_follows_from_the_request_is_said() -> None:
    rows = product(ErrorCode, OpCode, (None, "/", "/a"))
    told = {(code, opcode) for code, opcode, path in rows if reason(code, opcode, path) is not None}
    known = {ErrorCode.NONODE, ErrorCode.NOAUTH, ErrorCode.UNIMPLEMENTED, ErrorCode.BADARGUMENTS}
    assert {code for code, _ in told} == known | {ErrorCode.NOTEMPTY}
    assert {opcode for code, opcode in told if code == ErrorCode.NOTEMPTY} == {OpCode.REMOVE_RECURSIVE}
    asks = READS | MULTI_READS | WRITES | MULTI_WRITES
    assert {opcode for code, opcode in told if code == ErrorCode.NOAUTH} == asks - ASK_NO_ACL


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("/a", 'the chroot does not exist; ensure_path("/") makes it'),
        ("/a/b", "its parent /a does not exist"),
        ("/a/b-", "its parent /a does not exist"),
    ],
)
def test_the_parent_of_a_create_is_named(path: str, missing: str) -> None:
    assert reason(ErrorCode.NONODE, OpCode.CREATE2, path) == missing
    assert reason(ErrorCode.NONODE, OpCode.GET_DATA, path) is None


@pytest.mark.parametrize(
    "path", ["", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/\0", "/a\x1f", "/\ue000", "/\U0001f600", "/\udcff"]
)
def test_every_path_that_is_not_valid_has_a_fault(path: str) -> None:
    assert not is_valid(path.encode("utf-8", "surrogatepass"))
    assert path_fault(path) != "not a valid path"
