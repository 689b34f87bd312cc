"""`zab explore`: explores every order of events of a small ensemble within bounds, breadth first.

    zab explore --voters 3 --writes 1 --crashes 1 --breaks 1
    zab explore --epochs 3 --given 'lead 3; follow 1 3; settle; propose 3; crash 3'
    zab explore --wipes 1 --replay 'lead 3; follow 1 3; ...'
    zab explore --world move --changes 1 --epochs 1 --writes 0
    zab explore --partitions --voters 2 --crashes 1

An error is printed as the shortest list of steps to it, with the command that replays them.

Exit codes: 0 everything within the bounds was explored and is right, 3 safety: a promise was broken, 5 undecided: there
are too many states. 2 is wrong usage, as everywhere.
"""

import time
from typing import Annotated

import attrs
import typer

from zab.cli.json_form import JsonOption, json_line
from zab.cli.servers.explore_partitions import explore_partitions
from zab.cli.servers.exploring import end, fields, lines_of, progress, usage
from zab.cli.servers.simulate import refuse
from zab.cli.servers.simulate_brokers import demand_brokers
from zab.simulator.brokers.explored_partition import Bounds as PartitionBounds
from zab.simulator.brokers.partition_exploration import STATES_MAX as PARTITION_STATES_MAX
from zab.simulator.explorer.exploration import STATES_MAX, Report, explore, parsed, replay
from zab.simulator.explorer.states import Bounds, Step, shown
from zab.simulator.explorer.worlds import PLAIN, WORLDS

__all__ = ["explore_command"]

VOTERS_MAX = 5
BREAKS = 1
CHANGES = 4
"""How often the controller writes the state of a partition, unless --changes says so."""
_NAMES = ", ".join(WORLDS)

_Changes = Annotated[
    int | None,
    typer.Option(
        "--changes",
        min=0,
        help="Reconfigurations, where the world has any; writes of a state.",
        show_default=f"0, of partitions {CHANGES}",
    ),
]


def explore_command(
    voters: Annotated[int, typer.Option("--voters", min=1, max=VOTERS_MAX, help="Servers.")] = 3,
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Epochs to begin.")] = 2,
    writes: Annotated[int, typer.Option("--writes", min=0, help="Writes to propose.")] = 1,
    crashes: Annotated[int, typer.Option("--crashes", min=0, help="Processes that crash and restart.")] = 0,
    wipes: Annotated[int, typer.Option("--wipes", min=0, help="Processes that crash and lose their disk.")] = 0,
    breaks: Annotated[
        int | None, typer.Option("--breaks", min=0, help="Links that break.", show_default=str(BREAKS))
    ] = None,
    silences: Annotated[
        int, typer.Option("--silences", min=0, help="Servers that hear nothing until they time out.")
    ] = 0,
    rollbacks: Annotated[int, typer.Option("--rollbacks", min=0, help="Processes that end and forget.")] = 0,
    empty: Annotated[int, typer.Option("--empty", min=0, help="Servers that start without data.")] = 0,
    changes: _Changes = None,
    hand_overs: Annotated[int, typer.Option("--hand-overs", min=0, help="Leaders that hand over leadership.")] = 0,
    world: Annotated[str, typer.Option("--world", help=f"Who knows whom, and who may decide: {_NAMES}.")] = PLAIN,
    states_max: Annotated[
        int | None,
        typer.Option(
            "--states-max",
            min=1,
            help="Give up beyond this many states.",
            show_default=f"{STATES_MAX}, of partitions {PARTITION_STATES_MAX}",
        ),
    ] = None,
    given: Annotated[
        str, typer.Option("--given", metavar="STEPS", help="Explore what comes after these; settle: nothing waits.")
    ] = "",
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Explore the replicas of a partition instead of an ensemble.")
    ] = False,
    min_in_sync: Annotated[int, typer.Option("--min-in-sync", min=1, help="min.insync.replicas of a partition.")] = 1,
    expiries: Annotated[int, typer.Option("--expiries", min=0, help="Sessions of brokers that expire.")] = 0,
    losses: Annotated[int, typer.Option("--losses", min=0, help="Messages between brokers that are lost.")] = 0,
    moves: Annotated[int, typer.Option("--moves", min=0, help="Leaders of a partition that an operator moves.")] = 0,
    steps: Annotated[
        str | None, typer.Option("--replay", metavar="STEPS", help="Take these steps, separated by semicolons.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Exit codes: 0 all is right, 3 a promise was broken, 5 too many states."""
    if partitions:
        of_ensembles = {"silences": silences, "rollbacks": rollbacks, "empty": empty, "hand_overs": hand_overs}
        refuse("for ensembles", breaks=breaks is not None, given=given, world=world != PLAIN, **of_ensembles)
        demand_brokers()
        of_partitions = PartitionBounds(
            *(voters, min_in_sync, epochs, CHANGES if changes is None else changes, writes, crashes, wipes),
            *(expiries, losses, moves),
        )
        explore_partitions(of_partitions, states_max or PARTITION_STATES_MAX, steps, is_json=json)
        return
    refuse("for --partitions", min_in_sync=min_in_sync != 1, expiries=expiries, losses=losses, moves=moves)
    _check_world(world, voters)
    bounds = Bounds(
        *(voters, epochs, writes, crashes, wipes, BREAKS if breaks is None else breaks, silences, rollbacks, empty),
        *(changes or 0, hand_overs, world),
    )
    if steps is None:
        _explore(bounds, given, states_max or STATES_MAX, is_json=json)
    elif json:
        raise typer.BadParameter("--replay prints a trace, which is for people", param_hint="--json")
    else:
        _replay(bounds, steps)


def _check_world(world: str, voters: int) -> None:
    if world not in WORLDS:
        raise typer.BadParameter(f"there are {_NAMES}", param_hint="--world")
    if voters != len(WORLDS[world].files or range(voters)):
        raise typer.BadParameter(f"the world {world} has {len(WORLDS[world].files)}", param_hint="--voters")


def _explore(bounds: Bounds, given: str, states_max: int, *, is_json: bool) -> None:
    start = time.monotonic()
    with usage("--given"), progress() as tell:
        report = explore(bounds, _steps(given), states_max=states_max, progress=tell)
    seconds = time.monotonic() - start
    if is_json:
        print(json_line(fields(report, seconds, shown)))
    else:
        _print(report, seconds)
    end(report)


def _steps(text: str) -> list[Step]:
    return [parsed(line) for line in lines_of(text)]


def _replay(bounds: Bounds, steps: str) -> None:
    with usage("--replay"):
        lines = replay(bounds, _steps(steps))
    for line in lines:
        print(line)


def _print(report: Report, seconds: float) -> None:
    counts = attrs.asdict(report.bounds)
    world = counts.pop("world")
    bounds = ", ".join(f"{count} {name.replace('_', '-')}" for name, count in counts.items())
    what = "everything" if report.is_whole else "not everything"
    print(f"{what} within {bounds} of the {world} world")
    a_second = report.states_count / max(seconds, 1e-9)
    print(
        f"{report.states_count} states by {report.steps_count} steps, {report.depth} deep; "
        f"{report.servers_count} states of servers; {seconds:.1f} s, {a_second:.0f} states a second"
    )
    if report.found is None:
        return
    print(f"\n{report.found.text}\n\nafter {len(report.found.steps)} steps:\n")
    for line in replay(report.bounds, report.found.steps):
        print(line)
    options = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in attrs.asdict(report.bounds).items())
    print(f"\nreplay it with: zab explore {options} --replay '{'; '.join(map(shown, report.found.steps))}'")
