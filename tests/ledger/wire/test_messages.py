"""Requests and the answers that say nothing but a status."""

from __future__ import annotations

import typing

import attrs
import pytest

from zab.ledger.wire import messages
from zab.ledger.wire.messages import Answer, Request, answer_without
from zab.ledger.wire.status import Status

_VALUES = {"ledger": 5, "entry": 6, "first": 6, "plugin": "p"}


@pytest.mark.parametrize("request_class", typing.get_args(Request))
def test_every_request_has_an_answer_with_its_ids(request_class: type[Request]) -> None:
    required = [f.name for f in attrs.fields(request_class) if f.default is attrs.NOTHING]
    request = request_class(**{name: _VALUES.get(name, b"") for name in required})
    answer = answer_without(request, Status.TIMED_OUT)
    assert isinstance(answer, Answer)
    assert answer.status is Status.TIMED_OUT
    for name in _VALUES:
        if hasattr(request, name):
            assert getattr(answer, name) == getattr(request, name)
    assert hash(request) == hash(attrs.evolve(request))


def test_each_request_has_an_answer_of_its_own() -> None:
    answers = {type(answer_without(one, Status.OK)) for one in (messages.StartTls(), messages.ReadLac(1))}
    assert answers == {messages.TlsStarted, messages.LacRead}
    assert len(typing.get_args(Request)) == len(typing.get_args(Answer))


def test_what_proves_absence() -> None:
    """Rule of 5.1: nothing else does, limbo least of all."""
    assert {status for status in Status if status.proves_absence} == {Status.NO_LEDGER, Status.NO_ENTRY}
    assert {status for status in Status if not status.is_of_a_wire} == {Status.UNREACHABLE, Status.TIMED_OUT}
