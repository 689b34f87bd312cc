"""What clients of brokers and of ledgers have in common: operations, each with an outcome."""

from __future__ import annotations

import enum
from math import inf

from attrs import frozen


class Outcome(enum.Enum):
    """What a client knows of an operation; the names are Jepsen's."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@frozen(kw_only=True)
class Operation:
    """What all operations have."""

    client: str
    number: int
    start: float
    end: float = inf
