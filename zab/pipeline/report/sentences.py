"""Writes the sentences at the top of each ensemble's report, worst first.

A sentence is a list of pieces, each plain, strong, or code; code comes from the data, and the page escapes it.
"""

import datetime
from typing import Final

from zab.pipeline.report.facts import EnsembleFacts
from zab.pipeline.report.plots import bytes_text, count_text, milliseconds_text

__all__ = ["Sentence", "sentences", "time_text"]

Sentence = list[tuple[str, str]]

HOT_SHARE: Final = 0.1
REFUSED_SHARE: Final = 0.1
SLOW_HANDOVER_MS: Final = 1000


def time_text(time: datetime.datetime) -> str:
    """2026-11-21 05:02:21 UTC"""
    return f"{time.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


def sentences(facts: EnsembleFacts) -> list[Sentence]:
    """At least two sentences: the health of the replicas, and what was written."""
    told = [
        _health(facts),
        _writes(facts),
        _leaders(facts),
        _sessions(facts),
        _hot(facts),
        _locks(facts),
        _sizes(facts),
    ]
    told += [[("plain", note)] for note in facts.notes]
    return [sentence for sentence in told if sentence]


def _plural(count: float, one: str, many: str | None = None) -> str:
    return f"{count_text(count)} {one if count == 1 else many or one + 's'}"


def _health(facts: EnsembleFacts) -> Sentence:
    count, members = facts.health.problem_count, len(facts.members)
    if not count:
        held = "Its files are sound" if members == 1 else f"All {members} members agree and their files are sound"
        return [("strong", f"{held}: "), ("plain", "no problem was found.")]
    first = facts.health.problems[0]
    sentence: Sentence = [("strong", f"{_plural(count, 'problem')} found. "), ("plain", "The first")]
    if first.member is not None:
        sentence += [("plain", ", on member "), ("code", first.member)]
    sentence += [("plain", ": "), ("code", first.sentence)]
    return sentence if first.sentence.endswith(".") else [*sentence, ("plain", ".")]


def _writes(facts: EnsembleFacts) -> Sentence:
    seconds = max((facts.until - facts.since).total_seconds(), 0.001)
    totals = [sum(counts) for counts in zip(*facts.writes.values(), strict=True)]
    busiest = max(range(len(totals)), key=totals.__getitem__)
    peak = totals[busiest] * 1000 / facts.scale.width_ms
    return [
        ("strong", _plural(facts.operations, "operation")),
        (
            "plain",
            f" in {milliseconds_text(seconds * 1000)}, {count_text(_rounded(facts.operations / seconds))} a second",
        ),
        ("plain", f" on average and {count_text(_rounded(peak))} at the busiest, "),
        ("plain", f"at {time_text(facts.scale.starts[busiest])}. {_refused(facts)}"),
    ]


def _refused(facts: EnsembleFacts) -> str:
    if not facts.refused:
        return "None was refused."
    share = facts.refused / facts.operations
    told = f"{count_text(facts.refused)} were refused ({share:.1%}"
    return f"{told}, which is much: clients may be retrying in vain)." if share >= REFUSED_SHARE else f"{told})."


def _rounded(value: float) -> float:
    return round(value) if value >= 10 else float(f"{value:.2g}")


def _leaders(facts: EnsembleFacts) -> Sentence:
    changes = len(facts.epochs) - 1
    if changes <= 0:
        return [("plain", "One leader led all the time.")]
    return [
        ("strong", f"The leader changed {'once' if changes == 1 else _plural(changes, 'time')}"),
        ("plain", f", the last time at {time_text(facts.epochs[-1].since)} (epoch {facts.epochs[-1].epoch})."),
    ]


def _sessions(facts: EnsembleFacts) -> Sentence:
    found = facts.sessions
    sentence: Sentence = [("strong", _plural(found.opened, "session")), ("plain", " began")]
    if not found.expired:
        none = ", and none is known to have expired." if found.untold else ", and none expired."
        return [*sentence, ("plain", none)]
    sentence.append(("plain", f", {count_text(found.expired)} expired"))
    if not found.waves:
        return [*sentence, ("plain", ".")]
    largest = max(found.waves, key=lambda wave: wave.sessions)
    took = _plural(largest.ephemerals, "ephemeral znode")
    return [
        *sentence,
        ("plain", f"; the largest wave, at {time_text(largest.time)}, was {_plural(largest.sessions, 'session')}"),
        ("plain", f" and took {took} with it." if largest.sessions > 1 else f" that took {took} with it."),
    ]


def _hot(facts: EnsembleFacts) -> Sentence:
    if not facts.hot:
        return []
    first = facts.hot[0]
    share = first.writes / max(facts.operations, 1)
    sentence: Sentence = [("plain", "The hottest znode is "), ("code", first.path)]
    told = f" with {_plural(first.writes, 'write')}, {share:.1%} of all."
    return [*sentence, ("strong" if share >= HOT_SHARE else "plain", told)]


def _locks(facts: EnsembleFacts) -> Sentence:
    found = facts.locks
    if not found.lock_count:
        return []
    sentence: Sentence = []
    if found.overlap_count:
        sentence = [("strong", f"{_plural(found.overlap_count, 'hold')} of locks overlapped. ")]
    told = f"{_plural(found.lock_count, 'lock')} were held {_plural(found.hold_count, 'time')}"
    if found.lock_count == 1:
        told = f"One lock was held {_plural(found.hold_count, 'time')}"
    if found.median_handover_ms is None or found.longest_handover_ms is None:
        return [*sentence, ("plain", f"{told}; nobody had to wait.")]
    longest = f"the longest hand-over took {_duration(found.longest_handover_ms)}"
    return [
        *sentence,
        ("plain", f"{told}; a hand-over took {_duration(found.median_handover_ms)} (median), "),
        ("strong" if found.longest_handover_ms >= SLOW_HANDOVER_MS else "plain", longest),
        ("plain", "."),
    ]


def _duration(value_ms: float) -> str:
    """A duration as text; the log's clock counts milliseconds."""
    return "less than 1 ms" if value_ms < 1 else milliseconds_text(value_ms)


def _sizes(facts: EnsembleFacts) -> Sentence:
    sizes = facts.sizes
    if sizes.largest_path is None:
        return []
    sentence: Sentence = [
        ("plain", f"Values of {bytes_text(sizes.written_bytes)} were written, the largest, of "),
        ("plain", f"{bytes_text(sizes.largest_bytes)}, to "),
        ("code", sizes.largest_path),
    ]
    if sizes.snapshot_zxid is None:
        return [*sentence, ("plain", ".")]
    return [
        *sentence,
        ("plain", f"; the tree holds {_plural(sizes.znodes, 'znode')} with {bytes_text(sizes.data_bytes)} of data."),
    ]
