"""Subscriptions by an expression: what matches, what is refused, and what happens where RE2 is not installed."""

from __future__ import annotations

import time

import pytest

from tests.partition.groups.consumers import NONE, ConsumerBench, T, U, a_topic
from zab.kafka.errors import ErrorCode
from zab.partition.consumer_groups import regexes
from zab.partition.consumer_groups.heartbeat import REGEXES_MAX
from zab.partition.consumer_groups.regexes import LENGTH_MAX, InvalidRegexError, TopicRegex, topic_regex


@pytest.fixture
def bench() -> ConsumerBench:
    """Expressions are lists of names here, where RE2 may not be installed."""

    def of(text: str) -> TopicRegex:
        if text == "(":
            raise InvalidRegexError("no expression")
        return TopicRegex(lambda name: name in text.split("|"))

    bench = ConsumerBench()
    bench.coordinator._context.consumer_rules.regex_of = of
    return bench


def test_a_member_gets_the_topics_that_match_and_those_that_come(bench: ConsumerBench) -> None:
    one = bench.member("a", topic_regex="t|later")
    assert one.assigned == {T.id: frozenset(range(4))}
    bench.has = {**bench.has, "later": a_topic(7, 1)}
    assert one.beat().assigned == {T.id: frozenset(range(4)), a_topic(7, 1).id: frozenset({0})}
    one.told(bench.beats("a", one.epoch, topic_regex="", topic_names=("u",), owned=one.assigned))
    assert one.beat().assigned == {U.id: frozenset(range(2))}
    side = bench.group().consumer
    assert side is not None
    assert side.group.regexes == {}, "nobody subscribes to it"


def test_an_expression_goes_with_its_last_member(bench: ConsumerBench) -> None:
    for member_id in ("a", "b"):
        bench.member(member_id, topic_regex="t")
    side = bench.group().consumer
    assert side is not None
    bench.beats("a", -1)
    assert list(side.group.regexes) == ["t"]
    bench.beats("b", -1)
    assert side.group.regexes == {}


def test_an_expression_that_is_invalid_changes_nothing(bench: ConsumerBench) -> None:
    refused = bench.result(bench.join("a", topic_regex="("))
    assert (refused.error, refused.message) == (ErrorCode.INVALID_REGULAR_EXPRESSION, "no expression")
    assert not bench.has_group()
    one = bench.member("a")
    assert bench.beats("a", 1, topic_regex="(").error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert one.beat().epoch == 1


def test_a_group_has_so_many_expressions(bench: ConsumerBench) -> None:
    for number in range(REGEXES_MAX):
        bench.member(str(number), topic_regex=f"t|{number}")
    refused = bench.result(bench.join("more", topic_regex="t|more"))
    assert refused.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert bench.result(bench.join("more", topic_regex="t|1")).error is NONE


def test_only_new_names_are_looked_at() -> None:
    asked: list[str] = []
    regex = TopicRegex(lambda name: bool(asked.append(name)) or name.startswith("a"))
    assert regex.of(frozenset({"a1", "b1"})) == {"a1"}
    assert regex.of(frozenset({"a1", "a2"})) == {"a1", "a2"}
    assert sorted(asked) == ["a1", "a2", "b1"]


def test_without_the_library_an_expression_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regexes, "re2", None)
    topic_regex.cache_clear()
    with pytest.raises(InvalidRegexError, match="google-re2 is not installed"):
        topic_regex("a.*")


def test_re2_matches_whole_names_and_refuses_what_is_too_much() -> None:
    pytest.importorskip("re2")
    topic_regex.cache_clear()
    assert topic_regex("a.*").of(frozenset({"a", "ab", "ba"})) == {"a", "ab"}
    for text in ("(", "(?=a)", "a" * (LENGTH_MAX + 1), "((a{100}){100}){100}"):
        with pytest.raises(InvalidRegexError):
            topic_regex(text)
    started = time.monotonic()
    assert topic_regex("(a+)+b").of(frozenset({"a" * 249})) == frozenset()
    assert time.monotonic() - started < 5, "an engine that backtracks never ends"
