"""Which versions are listed, and to whom; and the answer to a client that asks in a version of the future."""

from __future__ import annotations

import re

import pytest

from zab.kafka.api_key import ApiKey
from zab.kafka.apis import APIS
from zab.kafka.codec import decoded
from zab.kafka.errors import ErrorCode
from zab.kafka.frames import response_frame
from zab.kafka.messages.handshake import ApiVersionsResponse
from zab.kafka.versions import (
    BETWEEN_BROKERS,
    CONSUMER_GROUP_PROTOCOL,
    FOR_CLIENTS,
    FROM_CONTROLLER,
    VERSIONS,
    api_versions_response,
)

TABLE = """
    0 0-10, 1 4-16, 2 1-8, 3 0-12, 8 2-9, 9 1-9, 10 0-4, 11 0-9, 12 0-4, 13 0-5, 14 0-5, 15 0-5,
    16 0-5, 17 0-1, 18 0-4, 19 2-7, 20 1-6, 21 0-2, 22 0-4, 23 2-4, 24 0-3, 25 0-3, 26 0-3, 28 0-3,
    29 0-3, 30 0-3, 31 0-3, 32 1-4, 33 0-2, 35 1-4, 36 0-2, 37 0-3, 42 0-2, 43 0-2, 44 0-1, 45 0-0, 46 0-0, 47 0-0,
    48 0-1, 49 0-1, 50 0-0, 51 0-0, 60 0-1, 61 0-0, 65 0-0, 66 0-0
"""
LISTED = {int(key): (int(lowest), int(highest)) for key, lowest, highest in re.findall(r"(\d+) (\d+)-(\d+)", TABLE)}
"""What clients were seen to work with, all of them on exactly these lists."""


def listed(keys: frozenset[int] = FOR_CLIENTS, version: int = 4) -> dict[int, tuple[int, int]]:
    _, answer = api_versions_response(version, keys)
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


def test_what_clients_are_told() -> None:
    assert listed() == LISTED
    assert list(listed()) == sorted(LISTED)


def test_old_clients_need_produce_0_in_the_list_but_never_send_it() -> None:
    produce = VERSIONS[ApiKey.PRODUCE]
    assert produce.listed == (0, 10)
    assert produce.served == (3, 10)
    assert [version for version in range(-1, 12) if produce.serves(version)] == list(range(3, 11))


def test_everything_else_is_served_as_it_is_listed() -> None:
    for key, versions in VERSIONS.items():
        assert versions.served == APIS[key].versions
        assert versions.listed == versions.served or key == ApiKey.PRODUCE


def test_what_only_brokers_are_told() -> None:
    among_brokers = listed(FOR_CLIENTS | BETWEEN_BROKERS)
    assert {key: among_brokers[key] for key in among_brokers.keys() - LISTED.keys()} == {
        ApiKey.WRITE_TXN_MARKERS: (1, 1),
        ApiKey.ALTER_PARTITION: (2, 3),
        ApiKey.CONTROLLED_SHUTDOWN: (3, 3),
        ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
    }
    assert listed(CONSUMER_GROUP_PROTOCOL) == {
        ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    }


def test_every_key_is_for_somebody() -> None:
    parts = [FOR_CLIENTS, BETWEEN_BROKERS, FROM_CONTROLLER, CONSUMER_GROUP_PROTOCOL]
    assert sum(map(len, parts)) == len(frozenset().union(*parts)) == len(APIS)


@pytest.mark.parametrize("version", range(5))
def test_a_version_that_is_served_is_answered_in_itself(version: int) -> None:
    assert api_versions_response(version)[0] == version
    assert api_versions_response(version)[1].error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [-1, 5, 100])
def test_a_version_of_the_future_is_answered_in_version_0_with_the_whole_list(version: int) -> None:
    written, answer = api_versions_response(version)
    frame = response_frame(ApiKey.API_VERSIONS, written, 7, answer)
    read = decoded(ApiVersionsResponse, 0, frame[8:])
    assert read.error_code == ErrorCode.UNSUPPORTED_VERSION == 35
    assert {row.api_key: (row.min_version, row.max_version) for row in read.api_keys} == LISTED
    assert len(frame) == 4 + 4 + 2 + 4 + 6 * len(LISTED)
