"""The settings of topics: names, defaults, and what is refused."""

import pytest

from zab.partition.settings.topic_settings import (
    InvalidSettingError,
    TopicSettings,
    broker_defaults,
    topic_keys,
    twin_keys,
)


def test_what_a_topic_says_overrides_what_its_broker_says():
    settings = broker_defaults({"log.retention.ms": "5000", "message.max.bytes": "2000"})
    settings = settings.with_changes({"retention.ms": "-1", "cleanup.policy": "compact, delete"})
    assert (settings.retention_ms, settings.max_message_bytes) == (-1, 2000)
    assert settings.is_compacted
    assert settings.deletes
    assert not TopicSettings().is_compacted


def test_every_setting_is_read_back_from_its_text():
    settings = TopicSettings().with_changes(
        {"min.cleanable.dirty.ratio": "0.25", "unclean.leader.election.enable": "true", "segment.ms": "7"}
    )
    assert TopicSettings().with_changes(settings.texts()) == settings
    assert settings.texts()["unclean.leader.election.enable"] == "true"
    assert len(settings.texts()) == len(topic_keys()) == len(twin_keys())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "-2"),
        ("retention.ms", "soon"),
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete,delete"),
        ("cleanup.policy", "destroy"),
        ("compression.type", "gzip"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("unclean.leader.election.enable", "maybe"),
        ("segment.bytes", "13"),
        ("log.retention.ms", "1"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(name, text):
    with pytest.raises(InvalidSettingError, match=f"^{name}"):
        TopicSettings().with_changes({name: text})


def test_a_broker_has_other_names():
    with pytest.raises(InvalidSettingError, match=r"^retention\.ms is unknown"):
        broker_defaults({"retention.ms": "1"})
