"""The error table and the sets of operations."""

import kazoo.exceptions
import pytest

from datatree.errors import ERRORS, ErrorCode, Refused
from datatree.opcodes import EXTENSIONS, LOCAL, MULTI_READS, MULTI_WRITES, NEVER, READS, WRITES, OpCode


def test_every_code_has_exactly_one_row():
    assert set(ERRORS) == {code.value for code in ErrorCode}
    for code, info in ERRORS.items():
        assert info.code == code
        assert info.name == ErrorCode(code).name
        assert info.doc
        assert info.java_text


@pytest.mark.parametrize(
    ("code", "name", "java_text"),
    [
        (-5, "MARSHALLINGERROR", "MarshallingError"),
        (-101, "NONODE", "NoNode"),
        (-103, "BADVERSION", "BadVersion"),
        (-111, "NOTEMPTY", "Directory not empty"),
        (-112, "SESSIONEXPIRED", "Session expired"),
        (-119, "NOTREADONLY", "Not a read-only call"),
        (-125, "QUOTAEXCEEDED", "Quota has exceeded"),
        (-127, "THROTTLEDOP", "Op throttled due to high load"),
    ],
)
def test_a_code_has_zookeepers_name_and_text(code, name, java_text):
    assert ERRORS[code].name == name
    assert ERRORS[code].java_text == java_text


def test_errors_that_leave_the_outcome_open_are_not_definite():
    indefinite = {info.name for info in ERRORS.values() if not info.definite}
    assert indefinite == {
        "OK",
        "SYSTEMERROR",
        "DATAINCONSISTENCY",
        "CONNECTIONLOSS",
        "OPERATIONTIMEOUT",
        "APIERROR",
        "SESSIONEXPIRED",
        "AUTHFAILED",
        "REQUESTTIMEOUT",
    }


def test_kazoo_knows_no_code_that_the_table_lacks():
    # -116 (closing) and -117 (nothing) are kazoo's own, for use inside that client.
    assert set(kazoo.exceptions.EXCEPTIONS) - {-116, -117} <= set(ERRORS)


def test_a_refusal_carries_its_code_and_success_is_none():
    refusal = Refused(ErrorCode.NONODE)
    assert refusal.code == ErrorCode.NONODE
    assert str(refusal) == "NONODE (-101)"
    with pytest.raises(AssertionError):
        Refused(ErrorCode.OK)


def test_every_operation_is_a_write_a_read_local_never_sent_or_ours():
    sets = [WRITES, READS, LOCAL, NEVER, EXTENSIONS]
    assert sum(map(len, sets)) == len(OpCode)
    assert frozenset().union(*sets) == set(OpCode)


def test_only_writes_and_check_stand_in_a_multi_and_only_reads_in_a_multi_read():
    assert {OpCode.CHECK, OpCode.CHECK_NOT_EXISTS, OpCode.CHECK_STAT} == MULTI_WRITES - WRITES
    assert MULTI_READS < READS
