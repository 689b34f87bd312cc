"""`zab broker drain BROKER`: others lead what it leads and, with --replicas, keep what it keeps.

The brokers do the work: reassignments (AlterPartitionReassignments), so many at a time, and elections of the preferred
leaders (ElectLeaders). A command that is ended has moved what it has told; what is under way goes on. Run again, it
goes on with the rest.

Not here: what is moved to where (`drain_plan.py`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from zab.cli.brokers.clients import Brokers, carry_out
from zab.cli.brokers.drain_plan import Move, Plan, Replicas, leadership_plan, replica_plan, undo_plan
from zab.cli.brokers.refusals import RefusedError
from zab.cli.exits import REFUSED, fail
from zab.cli.json_form import JsonOption, json_line
from zab.cli.progress import progress
from zab.cli.terminal import count_of, in_line, say
from zab.kafka.errors import ErrorCode

__all__ = ["drain_command"]

AT_ONCE: Final = 20
"""Partitions that are copied at a time, by default."""
ORDERS_AT_ONCE: Final = 1000
"""Partitions of which only the order of the replicas changes."""
_PROBE_SECONDS: Final = 0.2
_PREFERRED: Final = 0


def drain_command(
    context: typer.Context,
    broker: Annotated[int, typer.Argument(metavar="BROKER", min=0, show_default=False)],
    replicas: Annotated[bool, typer.Option("--replicas", help="Move its replicas to other brokers, too.")] = False,
    at_once: Annotated[
        int,
        typer.Option(
            "--at-once", metavar="N", min=1, max=ORDERS_AT_ONCE, help="How many partitions are copied at a time."
        ),
    ] = AT_ONCE,
    plan: Annotated[bool, typer.Option("--plan", help="Print what would move; change nothing.")] = False,
    undo: Annotated[
        Path | None,
        typer.Option("--undo", metavar="FILE", help="Undo an earlier run; the file has its --json output."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Move leadership off a broker, so that it can be stopped.

    With --replicas, its replicas go to other brokers, too, so that it can be stopped for good. Keep the lines of --json
    for --undo.
    """
    if undo is not None and replicas:
        raise typer.BadParameter("--undo gives back replicas, too", param_hint="--replicas")

    def work(brokers: Brokers) -> None:
        with brokers.admin() as admin:
            places = _partitions(admin)
            alive = sorted(each["broker_id"] for each in admin.describe_cluster()["brokers"])
            if broker not in alive and not any(broker in place.replicas for place in places):
                raise ValueError(f"there is no broker {broker}: there are {_ids(alive)}")
            if undo is not None:
                found = undo_plan(places, _lines_of(undo))
            elif replicas:
                found = replica_plan(places, broker, alive)
            else:
                found = leadership_plan(places, broker)
            if plan:
                for move in found.moves:
                    _tell(move, json=json)
            else:
                _carry_out(admin, found, at_once, brokers.wait_ms / 1000, json=json)
                if undo is None:
                    _say_end(admin, found, broker, replicas=replicas)
            _say_stuck(found, broker)

    carry_out(context, work, writes=not plan)


def _lines_of(path: Path) -> list[str]:
    """Raises ValueError if it cannot be read."""
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--undo: {path} cannot be read: {error}") from error


def _partitions(admin: Any, topics: Sequence[str] | None = None) -> list[Replicas]:
    """All partitions, also those of the topics of the brokers themselves, in the order of their names."""
    found = [
        Replicas(
            str(topic["name"]),
            one["partition_index"],
            one["leader_id"],
            tuple(one["replica_nodes"]),
            frozenset(one["isr_nodes"]),
        )
        for topic in admin.describe_topics(topics)
        for one in topic["partitions"]
    ]
    return sorted(found, key=lambda place: (place.topic, place.partition))


def _tell(move: Move, *, json: bool) -> None:
    place = move.place
    fields = {"topic": place.topic, "partition": place.partition, "former": list(place.replicas)}
    text = f"{place.name}: {_ids(place.replicas)} -> {_ids(move.replicas)}"
    say(json_line({**fields, "replicas": list(move.replicas)}) if json else in_line(text), flush=True)


def _ids(replicas: Iterable[int]) -> str:
    return ",".join(map(str, replicas))


def _carry_out(admin: Any, plan: Plan, at_once: int, patience_seconds: float, *, json: bool) -> None:
    """Batch by batch: reassigned, copied, led by the first replica."""
    orders = [move for move in plan.moves if move.is_of_order]
    copies = [move for move in plan.moves if not move.is_of_order]
    with progress("moved", "partition", prints_lines=True) as told:
        for moves in (*_batches(orders, ORDERS_AT_ONCE), *_batches(copies, at_once)):
            _reassign(admin, moves, json=json)
            _wait_for_copies(admin, moves)
            _lead(admin, moves, patience_seconds)
            told.add(len(moves))


def _batches(moves: Sequence[Move], size: int) -> Iterator[Sequence[Move]]:
    for at in range(0, len(moves), size):
        yield moves[at : at + size]


def _reassign(admin: Any, moves: Sequence[Move], *, json: bool) -> None:
    """Begin all; told is what is begun. Raises RefusedError for the first that is refused."""
    from kafka import TopicPartition

    by_place = {TopicPartition(move.place.topic, move.place.partition): move for move in moves}
    answer = admin.alter_partition_reassignments({place: list(move.replicas) for place, move in by_place.items()})
    refused = {place: error for place, error in answer.items() if error is not None}
    for place, move in by_place.items():
        if place not in refused:
            _tell(move, json=json)
    for place, error in sorted(refused.items()):
        raise RefusedError(f"{place.topic}-{place.partition}", error.errno)


def _wait_for_copies(admin: Any, moves: Sequence[Move]) -> None:
    """Until none of them is under way any more. It takes as long as copying takes."""
    from kafka import TopicPartition

    places = [TopicPartition(move.place.topic, move.place.partition) for move in moves]
    while set(places) & admin.list_partition_reassignments(places).keys():
        time.sleep(_PROBE_SECONDS)


def _lead(admin: Any, moves: Sequence[Move], patience_seconds: float) -> None:
    """Have the first replica lead each of them. Raises RefusedError if it does not within the time."""
    until = time.monotonic() + patience_seconds
    wanted = {(move.place.topic, move.place.partition): move.replicas[0] for move in moves}
    while True:
        topics = sorted({topic for topic, _ in wanted})
        now = {(place.topic, place.partition): place.leader for place in _partitions(admin, topics)}
        # A topic may have been deleted meanwhile.
        left = [where for where, leader in wanted.items() if now.get(where, leader) != leader]
        if not left:
            return
        if time.monotonic() > until:
            topic, partition = left[0]
            code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            raise RefusedError(f"{topic}-{partition}", code, f"broker {wanted[left[0]]} does not lead it yet")
        by_topic: dict[str, list[int]] = {}
        for topic, partition in left:
            by_topic.setdefault(topic, []).append(partition)
        admin.elect_leaders(_PREFERRED, by_topic, raise_errors=False)
        time.sleep(_PROBE_SECONDS)


def _say_end(admin: Any, plan: Plan, broker: int, *, replicas: bool) -> None:
    """What the broker still has, as the brokers say it now."""
    places = _partitions(admin)
    leads = sum(place.leader == broker for place in places)
    has = sum(broker in place.replicas for place in places)
    moved = count_of(len(plan.moves), "partition")
    kept = f", {count_of(has, 'replica')} left" if replicas or has else ""
    can_stop = not leads and not (replicas and has)
    say(f"{moved} moved; broker {broker} leads {leads}{kept}{'; it can be stopped' if can_stop else ''}", sys.stderr)


def _say_stuck(plan: Plan, broker: int) -> None:
    """Fails if anything stays."""
    if plan.stuck:
        names = ", ".join(place.name for place in plan.stuck[:5])
        more = ", …" if len(plan.stuck) > 5 else ""
        count = count_of(len(plan.stuck), "partition")
        fail(f"broker {broker} keeps {count}, which no other one can take: {names}{more}", REFUSED)
