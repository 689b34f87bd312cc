"""Every message in every version that kafka-python knows too: both read what the other writes, byte for byte."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import pytest

from tests.kafka.kafka_python import differences, theirs
from tests.kafka.random_messages import instance
from zab.kafka.apis import APIS
from zab.kafka.codec import decoded, encoded
from zab.kafka.messages.handshake import ApiVersionsResponse

EXAMPLES = 6

CASES = [
    pytest.param(cls, version, id=f"{cls.__name__}-{version}")
    for api in APIS.values()
    for cls in (api.request, api.response)
    for version in range(api.versions[0], api.versions[1] + 1)
    if theirs(cls.__name__, version) is not None
]


def test_how_many_there_are() -> None:
    """Requests that only brokers send, and KIP-848's, are not among them (`test_java`)."""
    names = {case.values[0].__name__ for case in CASES}
    assert len(names) == 2 * 47
    assert len(CASES) == 404


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_both_read_and_write_the_same_bytes(cls: Any, version: int) -> None:
    other: Any = theirs(cls.__name__, version)
    random = Random(f"{cls.__name__} {version}")
    for _ in range(EXAMPLES):
        ours = instance(cls, version, random)
        if cls is ApiVersionsResponse:
            # They read one with an error as version 0, in which it is then written.
            ours = attrs.evolve(ours, error_code=0)
        data = encoded(ours, version)
        read = other.decode(data, version=version)
        read._header = None
        assert differences(ours, read, version) == []
        again = bytes(read.encode(version=version))
        assert again == data
        assert decoded(cls, version, again) == ours
