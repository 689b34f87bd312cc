"""Which quota holds for a client."""

import pytest

from zab.partition.quotas.limits import FETCHED, PRODUCED, WORKED, Entity, QuotaLimits, entity_at

ALL = "<default>"
IN_ORDER = [
    (Entity("u", "c"), Entity("u", "c")),
    (Entity("u", ALL), Entity("u", "c")),
    (Entity("u"), Entity("u")),
    (Entity(ALL, "c"), Entity("u", "c")),
    (Entity(ALL, ALL), Entity("u", "c")),
    (Entity(ALL), Entity("u")),
    (Entity(None, "c"), Entity(None, "c")),
    (Entity(None, ALL), Entity(None, "c")),
]
"""As Kafka's documentation has it, with those who share each."""


def test_the_first_that_is_there_holds_and_says_who_shares_it():
    limits = QuotaLimits()
    for number, (entity, _) in enumerate(IN_ORDER):
        limits.changed(entity, {PRODUCED: str(number + 1)})
    for number, (entity, together) in enumerate(IN_ORDER):
        assert limits.find(PRODUCED, "u", "c") == (together, number + 1)
        limits.changed(entity, {})
    assert limits.find(PRODUCED, "u", "c") is None
    assert not limits.counts[PRODUCED]


def test_quotas_of_others_do_not_hold():
    limits = QuotaLimits()
    for entity in (Entity("v"), Entity("v", "c"), Entity("u", "d"), Entity(None, "d")):
        limits.changed(entity, {PRODUCED: "1"})
    assert limits.find(PRODUCED, "u", "c") is None


def test_each_key_is_looked_for_by_itself():
    limits = QuotaLimits()
    limits.changed(Entity("u", "c"), {FETCHED: "1"})
    limits.changed(Entity(None, ALL), {PRODUCED: "2"})
    assert limits.find(PRODUCED, "u", "c") == (Entity(None, "c"), 2)
    assert limits.find(FETCHED, "u", "c") == (Entity("u", "c"), 1)
    assert not limits.counts[WORKED]


@pytest.mark.parametrize("text", ["0", "-1", "one", "1.5", "", "nan", "9" * 30])
def test_what_is_no_quota_is_reported_and_does_not_hold(text):
    limits = QuotaLimits()
    [sentence] = limits.changed(Entity("u"), {PRODUCED: text, WORKED: "12.5"})
    assert "/config/users/u" in sentence
    assert limits.of_entities == {Entity("u"): {WORKED: 12.5}}


@pytest.mark.parametrize("text", ["0", "nan", "inf", "-0.5", "much"])
def test_a_percentage_is_a_number_above_0(text):
    assert QuotaLimits().changed(Entity("u"), {WORKED: text})


@pytest.mark.parametrize("entity", [each for each, _ in IN_ORDER])
def test_an_entity_has_a_path(entity):
    assert entity_at(entity.path) == entity


@pytest.mark.parametrize("path", ["topics/t", "users", "users/u/clients", "users/u/others/c", "ips/10.0.0.1", ""])
def test_other_paths_have_no_quotas(path):
    assert entity_at(path) is None
