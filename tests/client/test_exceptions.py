"""One exception class for each row of the error table."""

import pytest

import zab.client
from datatree.errors import ERRORS, ErrorCode
from zab.client.core.exceptions import EXCEPTIONS, NoNodeError, NotConnectedError, UnknownError, request_error


def test_every_error_code_has_exactly_one_class() -> None:
    assert set(EXCEPTIONS) == set(ERRORS) - {int(ErrorCode.OK)}


@pytest.mark.parametrize("code", sorted(set(ERRORS) - {0}))
def test_class_says_what_the_table_says(code: int) -> None:
    row = ERRORS[code]
    error = request_error(code, "/a")
    assert (error.code, error.definite, error.meaning, error.name) == (code, row.definite, row.doc, row.name)
    assert str(error) == f"{row.name} /a: {row.doc}"


def test_every_class_can_be_imported_from_the_client() -> None:
    assert all(getattr(zab.client, kind.__name__) is kind for kind in EXCEPTIONS.values())


def test_unknown_code_is_an_error_and_no_crash() -> None:
    error = request_error(-999, "/a")
    assert isinstance(error, UnknownError)
    assert not error.definite
    assert str(error).startswith("UNKNOWN(-999) /a: ")


def test_failed_operation_of_a_transaction_names_its_place() -> None:
    assert str(NoNodeError("/a", index=2)).startswith("NONODE /a (operation 2 of the transaction): ")


def test_a_request_that_was_never_sent_is_definite() -> None:
    error = NotConnectedError("/a", detail="no server for 5 ms")
    assert error.definite
    assert error.code == ErrorCode.CONNECTIONLOSS
    assert str(error) == "CONNECTIONLOSS /a: no server for 5 ms"
