"""Judges what clients of brokers were told: the rules of Jepsen's workload for Kafka, and some of groups.

    check(history) -> list[Violation]        empty: nothing to complain about

Jepsen's, under its names:

    inconsistent-offsets    two values at one offset
    duplicate               one value at two offsets, of an idempotent producer
    lost-write              a value that has to be there is not: its send was acknowledged, and so was its transaction,
                            or another value of the transaction was seen
    aborted-read            a value is seen whose send failed, or whose transaction was aborted
    precommitted-read       a value is seen before the commit of its transaction was asked for
    nonmonotonic-poll       a consumer goes back although nobody has sent it there
    poll-skip               a consumer passes over what others see, or what was acknowledged
    nonmonotonic-send       an idempotent producer's records are not in the order in which it sent them
    int-…                   the same within one poll, or within one transaction
    G0-realtime             the log and real time put two sends in different orders
    G1c, G1c-realtime       transactions read each other; what is read, the log, and real time cannot all be ordered

And further ones:

    phantom                 a value is seen that nobody has sent, or sent elsewhere
    lost-commit             a group is told of offsets that are older than what it has committed, or of none
    group-skip              a group has committed an offset, and none of its members has seen what is below
    not-exactly-once        a client that promises it has answered a value twice, or committed past it without an answer
    diverged                replicas differ

With one clock for all clients, what a process does one after the other is in real time one after the other; so the
variants of cycles that Jepsen has for processes are among those of real time. Not judged, since Kafka does not promise
it: that the sends of a transaction are beside each other (int-send-skip, G0 of transactions).

Limits: a send whose value was neither acknowledged nor seen has no place in the log, and proves nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, pairwise
from math import inf
from operator import attrgetter
from typing import Final

from tests.chaos.brokers.cycles import cycles
from tests.chaos.brokers.history import NOWHERE, Assign, Commit, History, Outcome, Partition, Poll, Record
from tests.chaos.brokers.known import Known
from tests.chaos.checker import Violation


def check(history: History) -> list[Violation]:
    """Every violation of the rules above, those of one rule together."""
    known = Known.of(history)
    return [violation for rule in RULES for violation in rule(known)]


# --------------------------------------------------------------------------------------------------- values and offsets


def _inconsistent_offsets(known: Known) -> Iterator[Violation]:
    for partition, log in known.logs.items():
        for offset, values in log.values.items():
            if len(values) > 1:
                yield Violation("inconsistent-offsets", f"{_place(partition, offset)}: {sorted(values)}")


def _duplicates(known: Known) -> Iterator[Violation]:
    for partition, log in known.logs.items():
        for value, offsets in log.offsets.items():
            send = known.sends.get(value)
            if len(offsets) > 1 and (send is None or send.is_idempotent):
                yield Violation("duplicate", f"{value} is at {sorted(offsets)} of {_name(partition)}")


def _phantoms(known: Known) -> Iterator[Violation]:
    for partition, log in known.logs.items():
        for value in log.offsets:
            send = known.sends.get(value)
            if send is None or send.partition != partition:
                where = "nobody sent it" if send is None else f"it was sent to {_name(send.partition)}"
                yield Violation("phantom", f"{value} in {_name(partition)}: {where}")


def _lost_writes(known: Known) -> Iterator[Violation]:
    for partition, log in known.logs.items():
        end = known.history.ends.get(partition)
        found = log.seen if end is None else {record.value for record in end}
        beyond = log.highest_seen if end is None else inf
        for value, offsets in log.offsets.items():
            if value not in found and known.is_visible(value) and min(offsets) < beyond:
                yield Violation("lost-write", f"{value}, {_place(partition, min(offsets))}, is gone")


def _aborted_reads(known: Known) -> Iterator[Violation]:
    for who, record, _ in _what_was_seen(known):
        send = known.sends.get(record.value)
        if send is not None and known.outcome(send) is Outcome.FAIL:
            yield Violation("aborted-read", f"{who} has read {record}, which was not to be")


def _precommitted_reads(known: Known) -> Iterator[Violation]:
    for who, record, end in _what_was_seen(known):
        send = known.sends.get(record.value)
        if send is None or send.transaction is None:
            continue
        transaction = known.transactions.get(send.transaction)
        asked = inf if transaction is None else transaction.asked
        if end < asked and known.outcome(send) is not Outcome.FAIL:
            yield Violation("precommitted-read", f"{who} has read {record} before {send.transaction} was committed")


def _what_was_seen(known: Known) -> Iterator[tuple[str, Record, float]]:
    """Everything seen with read_committed: the consumer, the record, the end of the poll."""
    for poll in known.history.polls:
        if poll.is_committed:
            for record in poll.records:
                yield f"{poll.client} #{poll.number}", record, poll.end
    for records in known.history.ends.values():
        for record in records:
            yield "the last consumer", record, inf


# ------------------------------------------------------------------------------------------------------------- in order


def _polls(known: Known) -> Iterator[Violation]:
    """Each consumer's records are those of the log, one after the other."""
    steps: list[Poll | Assign] = [*known.history.polls, *known.history.assigns]
    steps.sort(key=attrgetter("client", "number"))
    for _, own in groupby(steps, key=attrgetter("client")):
        positions: dict[Partition, int | None] = {}
        for step in own:
            if isinstance(step, Assign):
                positions = dict(step.positions)
            else:
                yield from _poll(known, step, positions)


def _poll(known: Known, poll: Poll, positions: dict[Partition, int | None]) -> Iterator[Violation]:
    within: set[Partition] = set()
    for record in poll.records:
        expected = positions.get(record.partition)
        prefix = "int-" if record.partition in within else ""
        who = f"{poll.client} #{poll.number}"
        if expected is not None and record.offset < expected:
            yield Violation(f"{prefix}nonmonotonic-poll", f"{who} at {expected} is given {record}")
        elif expected is not None:
            passed = known.logs[record.partition].visible_between(expected, record.offset)
            if passed:
                yield Violation(f"{prefix}poll-skip", f"{who} at {expected} is given {record}, and not {passed[:3]}")
        positions[record.partition] = record.offset + 1
        within.add(record.partition)


def _sends(known: Known) -> Iterator[Violation]:
    sends = [send for send in known.history.sends if send.is_idempotent]
    sends.sort(key=attrgetter("client", "partition", "number"))
    for _, own in groupby(sends, key=attrgetter("client", "partition")):
        placed = [(send, at) for send in own if (at := known.place(send)) is not None]
        for (before, low), (after, high) in pairwise(placed):
            if high < low:
                is_within = before.transaction is not None and before.transaction == after.transaction
                rule = "int-nonmonotonic-send" if is_within else "nonmonotonic-send"
                where = f"of {_name(before.partition)}"
                yield Violation(rule, f"{before.value} is at {low} {where}, and {after.value} at {high}")


# --------------------------------------------------------------------------------------------------------------- groups


def _lost_commits(known: Known) -> Iterator[Violation]:
    """A committed offset is that of a commit which no other one has replaced for sure."""
    by_place: dict[tuple[str, Partition], list[Commit]] = defaultdict(list)
    for commit in map(known.settled, known.history.commits):
        if commit.outcome is not Outcome.FAIL:
            for partition in commit.offsets:
                by_place[commit.group, partition].append(commit)
    for commits in by_place.values():
        commits.sort(key=attrgetter("end"))
    for read in known.history.committed:
        for partition, offset in read.offsets.items():
            commits = by_place.get((read.group, partition), [])
            acknowledged = [commit for commit in commits if commit.outcome is Outcome.OK]
            before = bisect_left(acknowledged, read.start, key=attrgetter("end"))
            replaced = max((commit.start for commit in acknowledged[:before]), default=-inf)
            if offset == NOWHERE:
                explained = before == 0
            else:
                explained = any(
                    commit.offsets[partition] == offset and commit.end >= replaced and commit.start <= read.end
                    for commit in commits
                )
            if not explained:
                last = acknowledged[before - 1].offsets[partition] if before else NOWHERE
                text = f"{read.group} is told of {offset} in {_name(partition)}, after it has committed {last}"
                yield Violation("lost-commit", text)


def _group_skips(known: Known) -> Iterator[Violation]:
    seen: dict[str, set[str]] = defaultdict(set)
    for poll in known.history.polls:
        if poll.group is not None:
            seen[poll.group].update(record.value for record in poll.records)
    for group, highest in _highest_commits(known, map(known.settled, known.history.commits)).items():
        for partition, end in highest.items():
            for value in known.logs[partition].visible_between(0, end):
                if value not in seen[group]:
                    text = f"{group} has committed {end} in {_name(partition)}, and has never seen {value}"
                    yield Violation("group-skip", text)


def _not_exactly_once(known: Known) -> Iterator[Violation]:
    answers: dict[str, list[str]] = defaultdict(list)
    for send in known.history.sends:
        if send.source is not None and known.is_visible(send.value):
            answers[send.source].append(send.value)
    for source, values in answers.items():
        # What a producer without idempotence has repeated is there twice, and is answered twice.
        if len(values) > 1 and known.sends[source].is_idempotent:
            yield Violation("not-exactly-once", f"{source} was answered by {values}")
    commits = [known.settled(each) for each in known.history.commits if each.transaction is not None]
    for group, highest in _highest_commits(known, commits).items():
        for partition, end in highest.items():
            for value in known.logs[partition].visible_between(0, end):
                if value not in answers:
                    text = f"{group} has committed {end} in {_name(partition)}, and {value} was never answered"
                    yield Violation("not-exactly-once", text)


def _highest_commits(known: Known, commits: Iterable[Commit]) -> dict[str, dict[Partition, int]]:
    """What each group has committed for sure, by partition."""
    found: dict[str, dict[Partition, int]] = defaultdict(dict)
    for commit in commits:
        if commit.outcome is Outcome.OK:
            own = found[commit.group]
            for partition, offset in commit.offsets.items():
                own[partition] = max(offset, own.get(partition, 0))
    return found


# ----------------------------------------------------------------------------------------------------- replicas, cycles


def _diverged(known: Known) -> Iterator[Violation]:
    for partition, digests in known.history.replicas.items():
        if len(set(digests.values())) > 1:
            shown = {name: digest.hex()[:8] for name, digest in sorted(digests.items())}
            yield Violation("diverged", f"{_name(partition)}: {shown}")


RULES: Final[tuple[Callable[[Known], Iterable[Violation]], ...]] = (
    _inconsistent_offsets,
    _duplicates,
    _phantoms,
    _lost_writes,
    _aborted_reads,
    _precommitted_reads,
    _polls,
    _sends,
    _lost_commits,
    _group_skips,
    _not_exactly_once,
    _diverged,
    cycles,
)


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _place(partition: Partition, offset: int) -> str:
    return f"at {offset} of {_name(partition)}"
