"""How long clients wait: the rate over windows, and the throttle that follows from it. Expected numbers are those of
Kafka's `Rate` and `QuotaUtils`, done by hand."""

import pytest

from zab.partition.quotas import client_quotas
from zab.partition.quotas.client_quotas import ClientQuotas
from zab.partition.quotas.limits import FETCHED, MUTATED, PRODUCED, WORKED, Entity
from zab.partition.quotas.rate import Rate

LONGEST_MS = 60_000


@pytest.fixture
def quotas():
    found = ClientQuotas(11, 1000, LONGEST_MS)
    found.now = 500_000
    return found


def test_the_rate_is_over_all_windows_but_one_at_least():
    rate = Rate(11, 1000)
    rate.add(5000, 100_000)
    assert (rate.span_ms(100_000), rate.measure(100_000)) == (10_000, 500)
    assert rate.span_ms(100_999) == 10_999
    assert rate.span_ms(101_000) == 10_000, "one window is complete"
    rate.add(5000, 104_500)
    assert (rate.span_ms(104_500), rate.total(104_500)) == (10_500, 10_000)


def test_windows_go_when_they_are_over():
    rate = Rate(3, 1000)
    for number in range(5):
        rate.add(10**number, 1000 * number)
    assert rate.total(4000) == 11_100
    assert rate.total(4999) == 11_100
    assert rate.total(5000) == 11_000
    assert rate.total(7000) == 0
    assert rate.measure(7000) == 0


def test_what_comes_within_a_window_is_added_up():
    rate = Rate(2, 1000)
    rate.add(1, 0)
    rate.add(1, 999)
    assert rate.total(1999) == 2
    assert rate.total(2000) == 0


def test_above_the_quota_a_client_waits_until_its_rate_would_be_the_quota(quotas):
    quotas.limits.changed(Entity("u"), {PRODUCED: "1000"})
    assert quotas.used(PRODUCED, "u", "c", 10_000) == 0, "ten windows hold so much"
    assert quotas.used(PRODUCED, "u", "c", 5000) == 5000, "15,000 bytes are 5,000 too many in 10 s"
    assert quotas.used(PRODUCED, "v", "c", 99_000) == 0


def test_clients_share_the_quota_of_their_user_and_not_that_of_their_id(quotas):
    quotas.limits.changed(Entity("u"), {PRODUCED: "1000"})
    quotas.limits.changed(Entity("<default>", "<default>"), {PRODUCED: "1000"})
    quotas.used(PRODUCED, "u", "c", 10_000)
    assert quotas.used(PRODUCED, "u", "d", 1000) == 1000
    quotas.used(PRODUCED, "v", "c", 10_000)
    assert quotas.used(PRODUCED, "v", "d", 10_000) == 0


def test_nobody_waits_for_longer_than_the_limit(quotas):
    quotas.limits.changed(Entity("u"), {PRODUCED: "1"})
    assert quotas.used(PRODUCED, "u", "c", 1 << 40) == LONGEST_MS


def test_for_its_share_of_the_time_a_client_waits_one_window_at_most(quotas):
    quotas.limits.changed(Entity("u"), {WORKED: "10"})
    assert quotas.used(WORKED, "u", "c", 100) == 0, "a second in ten"
    assert quotas.used(WORKED, "u", "c", 5) == 500
    assert quotas.used(WORKED, "u", "c", 100) == 1000


def test_what_is_taken_back_does_not_count(quotas):
    quotas.limits.changed(Entity("u"), {FETCHED: "1000"})
    assert quotas.is_unused(FETCHED, "u", "c")
    quotas.used(FETCHED, "u", "c", 10_000)
    quotas.used(FETCHED, "u", "c", 5000)
    quotas.taken_back(FETCHED, "u", "c", 5000)
    assert quotas.used(FETCHED, "u", "c", 1) == 1
    assert not quotas.is_unused(FETCHED, "u", "c")
    assert quotas.most(FETCHED, "u", "c") == 10_000
    assert quotas.most(FETCHED, "v", "c") is None


def test_a_new_quota_holds_for_what_was_used_before(quotas):
    quotas.limits.changed(Entity("u"), {PRODUCED: "1000"})
    quotas.used(PRODUCED, "u", "c", 10_000)
    quotas.limits.changed(Entity("u"), {PRODUCED: "500"})
    assert quotas.used(PRODUCED, "u", "c", 0) == 10_000
    quotas.limits.changed(Entity("u"), {})
    assert quotas.used(PRODUCED, "u", "c", 1 << 30) == 0


def test_the_use_of_so_many_is_known(quotas, monkeypatch):
    monkeypatch.setattr(client_quotas, "METERS_MAX", 3)
    quotas.limits.changed(Entity(None, "<default>"), {PRODUCED: "1000"})
    for client in ("busy", "a", "b", "busy", "c", "d"):
        quotas.used(PRODUCED, "u", client, 10_000)
    assert [entity.client for _, entity in quotas.meters] == ["busy", "c", "d"]
    assert quotas.used(PRODUCED, "u", "busy", 0) == 10_000


def test_a_producer_that_waits_as_it_is_told_is_held_to_its_rate(quotas):
    quotas.limits.changed(Entity("u"), {PRODUCED: "50000"})
    began, sent = quotas.now, 0
    while quotas.now < began + 600_000:
        sent += 16_384
        quotas.now += max(1, quotas.used(PRODUCED, "u", "c", 16_384))
    rate = sent * 1000 / (quotas.now - began)
    assert 45_000 < rate < 52_000, "the first windows may be filled at once"


def test_mutations_take_tokens_that_grow_back(quotas):
    quotas.limits.changed(Entity("u"), {MUTATED: "2"})
    assert quotas.mutated("u", "c", 22, is_strict=True) == (0, True), "eleven windows hold so many"
    assert quotas.mutated("u", "d", 5, is_strict=True) == (0, True), "none is missing yet"
    assert quotas.mutated("u", "c", 1, is_strict=True) == (2500, False)
    quotas.now += 2500
    assert quotas.mutated("u", "c", 1, is_strict=True) == (0, True)
    assert quotas.mutated("u", "c", 3, is_strict=False) == (2000, True)
    quotas.now += 100_000
    assert quotas.mutated("u", "c", 23, is_strict=False) == (500, True), "no more grow back than there is room for"
    assert quotas.mutated("v", "c", 1000, is_strict=True) == (0, True)


def test_the_tokens_of_so_many_are_known(quotas, monkeypatch):
    monkeypatch.setattr(client_quotas, "METERS_MAX", 2)
    quotas.limits.changed(Entity("<default>"), {MUTATED: "1"})
    for user in ("a", "b", "a", "c"):
        quotas.mutated(user, "c", 1, is_strict=True)
    assert [entity.user for entity in quotas.buckets] == ["a", "c"]
