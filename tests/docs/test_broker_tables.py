"""docs/reference/broker-settings.md has every key of a broker, docs/explanation/kafka-divergence.md every request."""

from __future__ import annotations

import re

from tests.docs.page_tables import rows
from tests.partition.one_broker import OneBroker
from tests.tidy.sources import ROOT
from zab.configuration.fields import settings_of
from zab.kafka.api_key import ApiKey
from zab.kafka.messages.handshake import ApiVersionsRequest
from zab.partition.guards.guards import guards_of
from zab.partition.image.cluster_image import ClusterImage
from zab.partition.settings import broker_config
from zab.partition.settings.broker_config import IGNORED, REFUSED, BrokerConfig
from zab.partition.settings.topic_settings import text_of_value, topic_keys

SETTINGS = (ROOT / "docs" / "reference" / "broker-settings.md").read_text(encoding="utf-8")
DIVERGENCE = (ROOT / "docs" / "explanation" / "kafka-divergence.md").read_text(encoding="utf-8")


def test_every_key_has_unit_default_and_reason() -> None:
    expected = [(f"`{each.key}`", each.unit, each.shown, each.reason) for each in settings_of(BrokerConfig)]
    assert rows(SETTINGS, "Keys") == expected


def test_every_default_of_topics_has_both_names() -> None:
    expected = [
        (f"`{key.twin}`", f"`{key.name}`", text_of_value(key.default), key.reason) for key in topic_keys().values()
    ]
    assert rows(SETTINGS, "Defaults of topics") == expected


def test_the_other_keys_have_what_they_set_or_why_they_do_not() -> None:
    longer = [(f"`{key}`", f"`{twin}`", str(ms)) for key, (twin, ms) in broker_config._LONGER.items()]
    assert rows(SETTINGS, "Longer units") == longer
    prefixes = {f"{prefix}*": why for prefix, why in broker_config._REFUSED_PREFIXES.items()}
    assert rows(SETTINGS, "Keys that are refused") == [
        (f"`{key}`", why) for key, why in {**REFUSED, **prefixes}.items()
    ]
    assert rows(SETTINGS, "Keys without effect") == [(f"`{key}`", why) for key, why in IGNORED.items()]


def test_every_request_has_the_versions_that_a_broker_lists() -> None:
    asked = ApiVersionsRequest(client_software_name="zab", client_software_version="1")
    listed = OneBroker().client().ask(asked, 3).api_keys
    expected = [(f"`{ApiKey(each.api_key).name}`", f"{each.min_version} to {each.max_version}") for each in listed]
    assert rows(DIVERGENCE, "The versions of requests that are served") == expected


def test_every_request_has_its_permissions() -> None:
    named = [name for first, _ in rows(SETTINGS, "Permissions") for name in re.findall(r"`(\w+)`", first)]
    guarded = [ApiKey(key).name for key in guards_of(ClusterImage)]
    assert sorted(named) == sorted(guarded)
