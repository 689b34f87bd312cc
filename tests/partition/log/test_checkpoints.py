"""Kafka's text files."""

import pytest

from zab.partition.log.checkpoints import (
    CheckpointError,
    MetaProperties,
    TopicPartition,
    format_epochs,
    format_meta_properties,
    format_offsets,
    format_partition_metadata,
    parse_epochs,
    parse_meta_properties,
    parse_offsets,
    parse_partition_metadata,
)


def test_offsets():
    offsets = {TopicPartition("b-c", 1): 5, TopicPartition("a", 0): 1 << 40}
    data = b"0\n2\na 0 1099511627776\nb-c 1 5\n"
    assert format_offsets(offsets) == data
    assert parse_offsets(data) == offsets
    assert parse_offsets(format_offsets({})) == {}


def test_epochs():
    assert format_epochs([(0, 0), (3, 20)]) == b"0\n2\n0 0\n3 20\n"
    assert parse_epochs(b"0\n2\n0 0\n3 20\n") == [(0, 0), (3, 20)]


def test_partition_metadata():
    topic_id = bytes(range(16))
    data = b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert format_partition_metadata(topic_id) == data
    assert parse_partition_metadata(data) == topic_id
    assert parse_partition_metadata(data.rstrip()) == topic_id


def test_meta_properties():
    meta = MetaProperties(3, "wfqzMqd6QDSiMXZHuGfvPA")
    assert parse_meta_properties(format_meta_properties(meta)) == meta
    of_kafka = b"#\n#Tue Nov 14 22:13:20 UTC 2023\ncluster.id=wfqzMqd6QDSiMXZHuGfvPA\nversion=0\nbroker.id=3\n"
    assert parse_meta_properties(of_kafka) == meta


@pytest.mark.parametrize(
    "data",
    [b"", b"0\n", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 -1\n", b"0\nx\n", b"0\n1\na 0 1\xff\n"],
)
def test_damaged_offsets(data):
    with pytest.raises(CheckpointError):
        parse_offsets(data)


@pytest.mark.parametrize("data", [b"0\n2\n1 5\n1 6\n", b"0\n2\n1 5\n2 5\n", b"0\n1\n1 5 6\n"])
def test_damaged_epochs(data):
    with pytest.raises(CheckpointError):
        parse_epochs(data)


@pytest.mark.parametrize(
    "data", [b"", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n", b"version: 0\ntopic_id: AAE\n"]
)
def test_damaged_partition_metadata(data):
    with pytest.raises(CheckpointError):
        parse_partition_metadata(data)


@pytest.mark.parametrize("data", [b"", b"version=1\nbroker.id=3\ncluster.id=x\n", b"version=0\ncluster.id=x\n"])
def test_damaged_meta_properties(data):
    with pytest.raises(CheckpointError):
        parse_meta_properties(data)
