"""Requests to whole members, and who asks."""

from __future__ import annotations

from typing import Any

from datatree.opcodes import OpCode
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble


def who(ensemble: Ensemble, client: Client) -> list[tuple[bytes, bytes]]:
    [(_, error, body)] = ensemble.do(client, client.request(OpCode.WHO_AM_I))
    assert error == 0
    return list(body)


def ask(ensemble: Ensemble, client: Client, opcode: int, body: bytes) -> tuple[int, Any]:
    [(_, error, answered)] = ensemble.do(client, client.request(opcode, body))
    return error, answered
