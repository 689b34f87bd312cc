"""How long an innocent client waits while others do what they may not: the attacks of `tests.hostile`, measured.

    python -m bench.attacked [--rounds N] [--no-readme]

One ensemble of three members, as `zab ensemble` starts it, is under each attack in turn, while clients at every member
read and write without a pause. Of each attack: how long one of them waited at most, and how much of the processor the
longest turn of a member took; of all rounds the median and the most. What the attacks assert, they assert here, too.
The result is written to bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench.machine import commit, say, system
from bench.table import write_readme
from tests.hostile import test_connections as connections
from tests.hostile import test_small_answers as answers
from tests.hostile import test_work as work
from tests.hostile.ensembles import Target, by_command
from tests.hostile.raw import Client

WAIT_MS_MAX, TURN_MS_MAX = 200, 20
"""The bound, on two quiet cores: what is above it stands out in the table."""

Attack = Callable[..., None]
Waits = list[tuple[float, float]]
"""Of each round: the longest wait of an innocent client, and the longest turn; milliseconds."""

CROWD = 10_000
"""Connections that time out at once; fewer, if a process may not have so many descriptors."""

ATTACKS: dict[str, Attack] = {
    "a list of 256 permissions, checked over and over": work.test_longest_list_checked_without_end,
    "multis of 10,000 parts": work.test_multi_of_as_many_parts_as_may_be,
    "multis of 1,000 parts, pipelined by four": work.test_multis_pipelined_by_four,
    "watches set again by the hundred thousand": work.test_watches_set_again_by_the_hundred_thousand,
    "a change that many watch": work.test_fan_out_to_watchers,
    "a change that two thousand clients watch": work.test_change_that_two_thousand_clients_watch,
    "watches of one session that fire at once": work.test_watches_of_one_session_that_fire_at_once,
    "listings of a crowd": work.test_listings_of_a_crowd,
    "multiReads that are refused": answers.test_multi_reads_of_more_than_an_answer_has_room_for,
    "multiReads of 10,000 parts": answers.test_multi_reads_of_as_many_parts_as_may_be,
    "pages of a crowd of 80,000": answers.test_pages_of_a_crowd_with_a_prefix,
    "pings and proofs, asked without end": answers.test_pings_and_proofs_without_end,
    "credentials of a megabyte that are no text": answers.test_credentials_of_a_megabyte_that_are_no_text,
    "lists of 251 permissions, set over and over": answers.test_lists_of_permissions_set_over_and_over,
    "ephemerals and descendants, counted in vain": answers.test_ephemerals_and_descendants_asked_for_without_end,
    "writes to a path of 2,000 components": answers.test_writes_to_a_path_of_thousands_of_components,
    "permissions that stand for too many": answers.test_permissions_that_stand_for_too_many,
    "a quota set over and over a crowd": work.test_quota_set_over_and_over_a_crowd,
    "multis that fifty watch, who read nothing": work.test_multis_that_many_watch,
    "the end of a session with a crowd of ephemerals": work.test_session_of_a_crowd_is_closed,
    "the feed of changes, asked without end": work.test_feed_of_changes_asked_without_end,
    "writes forwarded without end": work.test_writes_forwarded_without_end,
    "the end of three hundred clients": connections.test_crowd_that_ends_at_once,
    "10,000 connections that say nothing and time out at once": partial(connections.never_greet, count=CROWD),
    "10,000 sessions that expire at once": partial(connections.expire_at_once, count=CROWD),
    "readers of nothing": connections.test_readers_of_nothing,
    "requests of a megabyte from 450 clients": connections.test_requests_of_a_megabyte_from_hundreds,
    "writes of a megabyte from 80 clients": connections.test_writes_of_a_megabyte_from_many,
}
ROUNDS = 3
TARGET = "make bench-attacked"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.attacked", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of all attacks ({ROUNDS})")
    parser.add_argument("--no-readme", dest="readme", action="store_false", help="leave bench/README.md alone")
    options = parser.parse_args()
    found: dict[str, Waits] = {name: [] for name in ATTACKS}
    with tempfile.TemporaryDirectory(prefix="attacked-") as directory, by_command(Path(directory)) as target:
        for number in range(options.rounds):
            for name, attack in ATTACKS.items():
                found[name].append(waits_under(attack, target))
                say(f"round {number + 1}: {name}: {found[name][-1][0]:,.0f} ms")
    lines = [system(), commit(), f"`python -m bench.attacked`: {options.rounds} rounds"]
    text = "\n".join(f"- {line}" for line in lines) + "\n\n" + table(found)
    print(text)
    if options.readme:
        write_readme(text, TARGET)
    return 0


def waits_under(attack: Attack, target: Target) -> tuple[float, float]:
    """One attack, with what it needs: how long an innocent client waited at most, and a turn took; milliseconds."""
    count = len(target.longest)
    with contextlib.ExitStack() as stack:
        given: dict[str, object] = {"target": target}
        if "attacker" in inspect.signature(attack).parameters:
            given["attacker"] = stack.enter_context(contextlib.closing(Client(target.leader.client_port)))
        attack(**given)
    waits, turns = zip(*target.longest[count:], strict=True)
    return max(waits), max(turns)


def table(found: dict[str, Waits]) -> str:
    rows = ["| attack | longest wait of an innocent client, ms: median (most) | longest turn, ms of the processor |"]
    rows.append("|---|---:|---:|")
    for name, waits in found.items():
        shown = _shown([wait for wait, _ in waits], WAIT_MS_MAX), _shown([turn for _, turn in waits], TURN_MS_MAX)
        rows.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(rows) + "\n"


def _shown(values: Sequence[float], bound: float) -> str:
    text = f"{statistics.median(values):,.0f} ({max(values):,.0f})"
    return f"**{text}**" if max(values) > bound else text


if __name__ == "__main__":
    sys.exit(main())
