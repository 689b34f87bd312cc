"""Small worlds are explored whole; what is wrong in one is found by the shortest way, which can be walked again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import typer
from attrs import evolve
from typer.testing import CliRunner, Result

from datatree.log.batch import Position
from tests.protocol.dispatch import handle_with
from tests.simulator.explorer.walking import steps_of, walk
from zab.cli.servers.explore import explore_command
from zab.cli.servers.simulate import SAFETY, UNDECIDED
from zab.protocol import broadcast, discovery, learner_synchronization, synchronization
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.fields import NO_VOTE
from zab.protocol.peer import Peer
from zab.protocol.peer_settings import nothing
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import Following, Leading, LearnerHandler
from zab.simulator.explorer.ensemble import Ensemble
from zab.simulator.explorer.exploration import SETTLE, explore, parsed, replay
from zab.simulator.explorer.keys import key_of, link_of, renamed_link, unknown_fields
from zab.simulator.explorer.site import Site
from zab.simulator.explorer.states import Bounds, State, Step, shown
from zab.simulator.world.verdict import BrokenError, SafetyError

QUIET = Bounds(epochs=2, writes=1, crashes=0, breaks=0)
ONE_BREAK = Bounds(epochs=1, writes=1, crashes=0, breaks=1)
TWO_LEAVES = Bounds(epochs=1, writes=0, crashes=0, breaks=1, silences=1)
ONE_CRASH = Bounds(epochs=2, writes=1, crashes=1, breaks=0)
ONE_WIPE = Bounds(epochs=2, writes=1, crashes=0, wipes=1, breaks=0)
FIRST_START = Bounds(epochs=1, writes=1, crashes=0, breaks=0, empty=3)
TWO_WRITES = Bounds(epochs=2, writes=2, crashes=1, breaks=0)

SERVING = "lead 3; follow 1 3; follow 2 3; settle; "
EPOCH_ACCEPTED = "lead 3; follow 1 3; message 1-3 3; store 3; message 1-3 1; store 1; message 1-3 3"
"""A quorum has promised epoch 2, and its leader knows it."""
A_SERVER_THAT_IS_BEHIND = "lead 3; follow 1 3; settle; propose 3; settle; crash 3; down 1-3 1"
"""A write is committed without 2, and its leader ends."""
A_WRITE_THAT_ONE_HAS_LOST = "lead 3; follow 1 3; settle; propose 3; settle; wipe 1; settle; start 1"
A_WRITE_OF_ITS_OWN = SERVING + "propose 3; store 3; crash 3; down 1-3 1; down 2-3 2"
"""A leader ends with a write in its log that nobody else has: should another one lead next, it has to be cut."""

A_PROMISE_THAT_IS_FORGOTTEN = (
    SERVING
    + "propose 3; settle; silence 2; lead 2; silence 1; follow 1 2; message 1-2 2; store 2; message 1-2 1; store 1; "
    + "message 1-2 2; rollback 1; settle; start 1; follow 1 3; settle; propose 3; settle"
)
"""A server that has promised epoch 3 is put back to an older copy, and comes to the leader of epoch 2."""
OVERTAKEN = (
    A_WRITE_OF_ITS_OWN
    + "; start 3; lead 3; follow 1 3; message 1-3 3; store 3; message 1-3 1; store 1; message 1-3 3; "
    "crash 1; down 1-3 3; start 1; lead 1; follow 2 1; settle; propose 1; settle; wipe 2; settle; give-up 1; start 2"
)
"""A leader does not know of the newer epoch, nor does a server that has lost what it promised there."""
OLDER_LEADER = Bounds(epochs=3, writes=2, crashes=2, wipes=1, breaks=0)
FIVE = (
    "lead 5; follow 1 5; follow 2 5; follow 3 5; follow 4 5; settle; silence 4; lead 4; silence 1; follow 1 4; "
    "silence 2; follow 2 4; message 1-4 4; message 2-4 4; store 4; message 1-4 1; store 1; message 1-4 4; silence 2; "
    "wipe 1; settle; follow 2 5; settle; start 1; follow 1 5; settle; silence 3; follow 3 4; settle; propose 5; settle"
)
"""A server has lost what it promised to a leader, and has been readmitted by the one before."""
FIVE_VOTERS = Bounds(voters=5, epochs=2, writes=1, crashes=0, wipes=1, breaks=0, silences=6)
LOWER = (
    SERVING
    + "silence 2; lead 2; silence 1; follow 1 2; message 1-2 2; store 2; message 1-2 1; store 1; message 1-2 2; "
    "store 2; silence 1; follow 1 3"
)
"""A server that has promised an epoch comes back to the leader of the one before."""
THREE_SILENCES = Bounds(epochs=2, writes=1, crashes=0, breaks=0, silences=3)
ONE_ROLLBACK = Bounds(epochs=2, writes=2, crashes=0, breaks=0, silences=3, rollbacks=1)

Patch = pytest.MonkeyPatch
PAGE = (Path(__file__).parents[3] / "docs" / "explanation" / "small-worlds.md").read_text(encoding="utf-8")


def state_after(ensemble: Ensemble, given: str) -> State:
    taken = [parsed(line) for line in replay(ensemble.bounds, steps_of(given)) if not line.startswith(" ")]
    assert SETTLE not in taken
    state = ensemble.beginning()
    for step in taken:
        state = ensemble.after(state, step)
    return state


def test_a_world_in_which_nothing_goes_wrong_is_explored_whole() -> None:
    report = explore(QUIET)
    assert report.found is None
    assert report.is_whole
    assert report.reached == {"lead", "follow", "store", "message", "propose", "give-up"}
    assert report.states_count > 500


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounds", "reached"),
    [
        (ONE_BREAK, {"break", "down"}),
        (evolve(ONE_CRASH, epochs=1), {"crash", "start", "down"}),
        (evolve(ONE_WIPE, epochs=1), {"wipe", "start", "down"}),
    ],
    ids=["a link breaks", "a process ends", "a disk is lost"],
)
@pytest.mark.long
def test_a_world_in_which_one_thing_goes_wrong_is_explored_whole(bounds: Bounds, reached: set[str]) -> None:
    report = explore(bounds)
    assert report.found is None, f"{report.found}"
    assert report.is_whole
    assert reached <= report.reached


@pytest.mark.slow
def test_both_epochs_are_established_and_the_write_is_delivered_in_either() -> None:
    ensemble = Ensemble(ONE_CRASH)
    ends: set[int] = set()
    established: set[int] = set()
    for seed in range(300):
        for state, _ in walk(ensemble, Random(seed), 60):
            ends.add(ensemble.verdicts.ends[state.verdict][0])
            established |= {epoch for epoch, _, _ in ensemble.verdicts.primaries(state.verdict)}
    assert established == {2, 3}
    assert {end >> 32 for end in ends} == {0, 2, 3}


def test_what_comes_after_given_steps_is_explored_alone() -> None:
    given = steps_of("lead 2; follow 1 2; message 1-2 2")
    ensemble = Ensemble(QUIET)
    state = beginning = ensemble.beginning()
    for step in given:
        state = ensemble.after(state, step)
    whole, part = reachable(ensemble, beginning), reachable(ensemble, state)
    assert part < whole
    assert ensemble.digest(beginning) not in part
    assert explore(QUIET).states_count == len(whole)
    report = explore(QUIET, given)
    assert report.is_whole
    assert report.states_count == len(part)


def reachable(ensemble: Ensemble, state: State) -> set[bytes]:
    found, level = {ensemble.digest(state)}, [state]
    while level:
        after = [ensemble.after(state, step) for state in level for step in ensemble.steps(state)]
        new = {ensemble.digest(state): state for state in after if not ensemble.is_beyond(state)}
        level = [state for digest, state in new.items() if digest not in found]
        found |= new.keys()
    return found


def test_settling_leaves_nothing_that_comes_by_itself() -> None:
    ensemble = Ensemble(TWO_WRITES)
    state = state_after(ensemble, A_WRITE_OF_ITS_OWN)
    assert {name for name, _ in ensemble.steps(state)} == {"start", "lead"}
    logs = [ensemble.sites._sites[number].disk.log for number in state.sites]
    assert [len(log) for log in logs] == [0, 0, 1]


@pytest.mark.parametrize("given", ["store 1", "settle; message 1-2 2", "lead 1; lead 1"])
def test_given_steps_that_cannot_come_are_refused(given: str) -> None:
    with pytest.raises(ValueError, match="cannot come here"):
        explore(QUIET, steps_of(given))


def test_given_steps_within_more_epochs_than_there_may_be_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 1 epochs"):
        explore(evolve(ONE_CRASH, epochs=1), steps_of(A_WRITE_OF_ITS_OWN + "; lead 2; follow 1 2; settle"))


def test_a_first_start_makes_a_lineage_of_which_everybody_holds_the_same() -> None:
    ensemble = Ensemble(FIRST_START)
    assert ensemble.sites.renamings == [()], "a lineage has the id of its maker"
    state = state_after(ensemble, "lead 3; follow 1 3; follow 2 3; settle; propose 3; settle")
    disks = [ensemble.sites._sites[number].disk for number in state.sites]
    assert {disk.member for disk in disks} == {disk.lineage for disk in disks} == {bytes([3, 1]).rjust(16, b"\0")}
    assert ensemble.verdicts.ends[state.verdict][0]


def test_of_some_empty_servers_none_leads_or_is_followed_by_itself() -> None:
    ensemble = Ensemble(evolve(FIRST_START, empty=1))
    beginning = ensemble.beginning()
    assert {step for step in ensemble.steps(beginning) if step[0] == "lead"} == {("lead", (2,)), ("lead", (3,))}
    state = state_after(ensemble, "lead 3")
    assert ("follow", (1, 3)) not in set(ensemble.steps(state))
    state = state_after(ensemble, "lead 3; follow 2 3")
    assert ("follow", (1, 3)) in set(ensemble.steps(state))


def test_who_has_lost_its_data_leads_once_something_was_delivered() -> None:
    ensemble = Ensemble(ONE_WIPE)
    assert ("lead", (1,)) not in set(ensemble.steps(state_after(ensemble, "wipe 1; start 1")))
    assert ("lead", (1,)) in set(ensemble.steps(state_after(ensemble, A_WRITE_THAT_ONE_HAS_LOST)))


def test_more_states_than_may_be_visited_is_not_the_whole() -> None:
    report = explore(QUIET, states_max=50)
    assert not report.is_whole
    assert report.found is None


# ------------------------------------------------------------------------------------------------- what makes it right


@pytest.mark.slow
@pytest.mark.long
def test_a_step_changes_nothing_of_the_state_that_it_leaves() -> None:
    """States of servers share what they are made of: a step that wrote into it would change others."""
    ensemble = Ensemble(Bounds(epochs=2, writes=1, crashes=1, wipes=1, breaks=1, silences=1))
    sites = ensemble.sites
    for seed in range(30):
        walk(ensemble, Random(seed), 60)
    keys = [key_of(site, ()) for site in sites._sites]
    for seed in range(30, 60):
        walk(ensemble, Random(seed), 60)
    assert sites.count > len(keys)
    assert [key_of(site, ()) for site in sites._sites[: len(keys)]] == keys


@pytest.mark.slow
def test_an_ensemble_with_its_servers_renamed_is_the_same_state() -> None:
    """The walk with renamed servers: each state has the digest of its image."""
    bounds = Bounds(epochs=2, writes=1, crashes=1, wipes=1, breaks=1, silences=1)
    ensemble = Ensemble(bounds)
    assert len(ensemble.sites.renamings) in (6, 1)
    for seed in range(12):
        walked = walk(ensemble, Random(seed), 50)
        for renaming in ensemble.sites.renamings:
            state = ensemble.beginning()
            for original, step in walked:
                assert ensemble.digest(state) == ensemble.digest(original), shown(step)
                name, arguments = step
                if name in ("message", "down", "break"):
                    link, *end = arguments
                    image = (renamed_link(link, renaming), *(renaming[sid - 1] for sid in end))
                else:
                    image = tuple(renaming[sid - 1] for sid in arguments)
                state = ensemble.after(state, (name, image))


def test_a_member_that_was_rolled_back_follows_only_who_knows_better_until_it_is_readmitted() -> None:
    ensemble = Ensemble(ONE_ROLLBACK)

    def possible(given: str) -> set[Step]:
        steps = ensemble.steps(state_after(ensemble, SERVING + given))
        return {step for step in steps if step[0] in ("lead", "follow") and step[1][0] == 1}

    assert possible("rollback 1; settle; start 1") == set()
    acknowledged = "propose 3; settle; rollback 1; settle; start 1; "
    assert possible(acknowledged) == {("follow", (1, 3))}
    assert possible(acknowledged + "follow 1 3; settle; silence 1; settle") == {("follow", (1, 3)), ("lead", (1,))}


@pytest.mark.slow
def test_other_states_have_other_digests() -> None:
    """Against a key that leaves out too much: two walks end in one state only if the same can come from it."""
    ensemble = Ensemble(Bounds(epochs=2, writes=1, crashes=1, breaks=1))
    following: dict[bytes, set[bytes]] = {}
    for seed in range(40):
        for state, _ in walk(ensemble, Random(seed), 40):
            after = {ensemble.digest(ensemble.after(state, step)) for step in ensemble.steps(state)}
            assert following.setdefault(ensemble.digest(state), after) == after
    assert len(following) > 300


def test_the_keys_know_every_field_of_a_peer() -> None:
    """Otherwise nothing is wrong, but symmetric states are not merged any more: say in `keys` what the field is."""
    ensemble = Ensemble(QUIET)
    assert unknown_fields(Peer(ensemble._settings[0], nothing(), Random(0))) == set()


@pytest.mark.slow
def test_a_field_that_is_not_known_costs_the_symmetry_and_nothing_else(monkeypatch: Patch) -> None:
    whole = explore(QUIET)
    monkeypatch.setattr("zab.simulator.explorer.sites.unknown_fields", lambda peer: {"new"})
    report = explore(QUIET)
    assert report.is_whole
    assert 5 * whole.states_count < report.states_count <= 6 * whole.states_count


# ------------------------------------------------------------------------------------------------------ can it fail?


def follow_a_leader_that_is_behind(patch: Patch) -> None:
    patch.setattr(discovery, "_is_ahead", lambda peer, handler, message: False)


def count_an_epoch_that_was_promised_to_another(patch: Patch) -> None:
    """An ACKEPOCH says that the epoch was accepted before, perhaps for somebody else, and counts nevertheless."""
    handle_with(patch, _counting, instead_of=discovery.leader_on_ackepoch)


def _counting(peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: msg.AckEpoch) -> None:
    epoch = peer.current_epoch if message.epoch == NO_VOTE else message.epoch
    discovery.leader_on_ackepoch(peer, now, leading, handler, msg.AckEpoch(epoch, message.zxid, message.chain))


def acknowledge_newleader_before_it_is_durable(patch: Patch) -> None:
    def hasty(peer: PeerState, following: Following) -> None:
        assert following.newleader is not None
        if not following.current_saving:
            following.current_saving = True
            peer.save_epochs(peer.accepted_epoch, following.newleader[0])
            peer.durable = peer.history.last[0]

    patch.setattr(learner_synchronization, "learner_try_to_ack_newleader", hasty)


def commit_without_a_quorum(patch: Patch) -> None:
    patch.setattr(broadcast, "high_water_mark", lambda quorum, acknowledged, mark: max(mark, *acknowledged.values()))


def count_an_amnesiac(patch: Patch) -> None:
    """B2: a member that lost its data is counted as if it had never held any."""
    followerinfo = discovery.leader_on_followerinfo

    def trusting(
        peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: msg.FollowerInfo
    ) -> None:
        # What a member without data says about itself is not believed.
        plain = msg.FollowerInfo(
            message.accepted_epoch,
            message.lineage or peer.lineage,
            message.holds,
            False,
            message.observer,
            False,
            False,
        )
        followerinfo(peer, now, leading, handler, plain)

    handle_with(patch, trusting, instead_of=followerinfo)
    patch.setattr(Ensemble, "_may_follow", lambda ensemble, state, sid, leader: True)


def count_an_amnesiac_that_is_not_confirmed(patch: Patch) -> None:
    """B2: a leader that was overtaken believes a member that has lost what it promised there."""
    acknowledge = synchronization.leader_on_ackld

    def hasty(peer: PeerState, now: int, leading: Leading, handler: LearnerHandler) -> None:
        handler.amnesiac = False
        acknowledge(peer, now, leading, handler)

    patch.setattr(synchronization, "leader_on_ackld", hasty)


def cut_the_history_in_memory_alone(patch: Patch) -> None:
    """The log goes on after what was cut."""

    def cut(peer: PeerState, position: Position) -> None:
        peer.history.truncate(position)
        peer.durable = min(peer.durable, position[0])

    patch.setattr(learner_synchronization, "_cut", cut)


def count_what_was_cut_as_durable(patch: Patch) -> None:
    cut = learner_synchronization._cut

    def keeping(peer: PeerState, position: Position) -> None:
        durable = peer.durable
        cut(peer, position)
        peer.durable = durable

    patch.setattr(learner_synchronization, "_cut", keeping)


def establish_without_committing_the_initial_history(patch: Patch) -> None:
    establish = synchronization.leader_try_to_establish

    def hasty(peer: PeerState, now: int, leading: Leading) -> None:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(PeerState, "set_committed", lambda peer, zxid: None)
            establish(peer, now, leading)

    patch.setattr(synchronization, "leader_try_to_establish", hasty)


def believe_a_member_that_was_rolled_back(patch: Patch) -> None:
    """B4: what it acknowledged before is forgotten on both sides."""

    def forgetful(peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: msg.AckEpoch) -> None:
        leading.acknowledged.pop(handler.sid, None)
        acknowledge(peer, now, leading, handler, message)

    acknowledge = discovery.leader_on_ackepoch
    handle_with(patch, forgetful, instead_of=acknowledge)


def write_no_member_record(patch: Patch) -> None:
    """B1: a member that founds an ensemble acknowledges NEWLEADER, and is an amnesiac after its next start."""
    patch.setattr(
        learner_synchronization, "learner_on_current_epoch_saved", learner_synchronization.learner_ack_newleader
    )


def begin_a_lineage_at_any_time(patch: Patch) -> None:
    """B3: a leader without a lineage begins one, no matter who follows it."""
    is_first_start = discovery._is_first_start
    patch.setattr(discovery, "_is_first_start", lambda peer, leading: is_first_start(peer, leading) or not peer.lineage)


VARIANTS: dict[Callable[[Patch], None], tuple[Bounds, str, str]] = {
    follow_a_leader_that_is_behind: (ONE_CRASH, A_SERVER_THAT_IS_BEHIND, "server 1 halts: leader 2 asks to cut"),
    count_an_epoch_that_was_promised_to_another: (TWO_LEAVES, "", "leadership"),
    acknowledge_newleader_before_it_is_durable: (ONE_CRASH, "", ""),
    commit_without_a_quorum: (QUIET, "", "durability"),
    count_an_amnesiac: (ONE_WIPE, A_WRITE_THAT_ONE_HAS_LOST, ""),
    count_what_was_cut_as_durable: (TWO_WRITES, A_WRITE_OF_ITS_OWN, "server 3 stops at an assertion"),
    cut_the_history_in_memory_alone: (TWO_WRITES, A_WRITE_OF_ITS_OWN, "server 3 stops at an assertion"),
    establish_without_committing_the_initial_history: (TWO_WRITES, A_WRITE_OF_ITS_OWN, "primary_integrity"),
    count_an_amnesiac_that_is_not_confirmed: (OLDER_LEADER, OVERTAKEN, "agreement"),
    write_no_member_record: (FIRST_START, "", "promises: server"),
    begin_a_lineage_at_any_time: (ONE_WIPE, A_WRITE_THAT_ONE_HAS_LOST, "one lineage: server 1"),
    believe_a_member_that_was_rolled_back: (ONE_ROLLBACK, A_PROMISE_THAT_IS_FORGOTTEN, ""),
}
"""Each with the world that finds it: its bounds and the steps that it begins with; and how what it finds begins."""


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
@pytest.mark.long
def test_the_smallest_world_finds_the_broken_variant(variant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    variant(monkeypatch)
    bounds, given, rule = VARIANTS[variant]
    found = explore(bounds, steps_of(given)).found
    assert found is not None
    assert found.text.startswith(rule), found.text
    lines = replay(bounds, found.steps)
    assert lines[-1] == found.text


@pytest.mark.parametrize(
    ("sids", "field", "given", "what"),
    [
        ({1, 2, 3}, "accepted", "", "LeaderInfo, its disk has no such acceptedEpoch"),
        ({1}, "accepted", "lead 3; follow 1 3", "AckEpoch, its disk has no such acceptedEpoch"),
        (
            {3},
            "log",
            f"{SERVING}; propose 3; store 3; silence 3; settle; lead 1; follow 3 1",
            "AckEpoch, its disk has no such position",
        ),
        ({1, 2, 3}, "current", "", "NewLeader, its disk has no such currentEpoch"),
        ({1}, "current", f"{EPOCH_ACCEPTED}; store 3", "Ack, its disk has no such currentEpoch"),
        ({1}, "log", f"{A_WRITE_OF_ITS_OWN}; start 3; lead 3; follow 1 3", "Ack, its disk has no such history"),
        ({1}, "log", SERVING, "Ack, its disk has no such batch"),
        ({1}, "member", f"{SERVING}; wipe 1; start 1; follow 1 3", "Readmitted, its disk has no such member record"),
    ],
    ids=lambda value: value if isinstance(value, str) and "no such" in value else "",
)
def test_what_a_disk_says_it_has_stored_and_has_not_is_found_when_it_is_promised(
    sids: set[int], field: str, given: str, what: str, monkeypatch: Patch
) -> None:
    write = Site.write

    def lying(site: Site) -> ev.Event:
        before, answer = getattr(site.disk, field), write(site)
        if site.settings.sid in sids:
            site.disk = evolve(site.disk, **{field: before})
        return answer

    monkeypatch.setattr(Site, "write", lying)
    counts = {f"{name}s": given.count(f"{name} ") for name in ("break", "silence", "wipe")}
    bounds = Bounds(epochs=2, writes=1, crashes=given.count("crash "), **counts)
    found = explore(bounds, steps_of(given)).found
    assert found is not None
    assert found.text.startswith("promises: server"), found.text
    assert found.text.endswith(what)


def test_no_shorter_way_leads_to_what_is_wrong(monkeypatch: Patch) -> None:
    commit_without_a_quorum(monkeypatch)
    found = explore(QUIET).found
    assert found is not None
    ensemble = Ensemble(QUIET)
    level = {ensemble.digest(ensemble.beginning()): ensemble.beginning()}
    for _ in range(len(found.steps) - 1):
        steps = [(state, step) for state in level.values() for step in ensemble.steps(state)]
        level = {ensemble.digest(after): after for after in (ensemble.after(*each) for each in steps)}
    assert any(breaks(ensemble, state, step) for state in level.values() for step in ensemble.steps(state))


def breaks(ensemble: Ensemble, state: State, step: Step) -> bool:
    try:
        ensemble.after(state, step)
    except (SafetyError, BrokenError):
        return True
    return False


# -------------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def invoke() -> Callable[..., Result]:
    app = typer.Typer()
    app.command()(explore_command)
    runner = CliRunner()
    return lambda *words: runner.invoke(app, list(words))


WORDS = ("--writes", "1", "--breaks", "0")


def test_the_command_says_what_was_explored(invoke: Callable[..., Result]) -> None:
    done = invoke(*WORDS)
    assert done.exit_code == 0, done.output
    assert "everything within 3 voters, 2 epochs, 1 writes, 0 crashes, 0 wipes, 0 breaks" in done.output
    assert "states a second" in done.output


def test_the_command_explores_a_world(invoke: Callable[..., Result], monkeypatch: Patch) -> None:
    words = ("--world", "fresh", "--epochs", "1", "--writes", "0", "--breaks", "0")
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    assert "of the fresh world" in done.output
    monkeypatch.setattr(PeerState, "keep_lineage", lambda peer: None)
    done = invoke(*words)
    assert done.exit_code == SAFETY
    again = shlex.split(done.output.rsplit("replay it with: zab explore ", 1)[1])
    assert invoke(*again).output.splitlines()[-1].startswith("leadership: ")


@pytest.mark.parametrize("words", [("--world", "flat"), ("--world", "move", "--voters", "4"), ("--voters", "0")])
def test_a_world_that_is_not_there_is_wrong_usage(invoke: Callable[..., Result], words: tuple[str, ...]) -> None:
    assert invoke(*words).exit_code == 2


def test_too_many_states_are_undecided(invoke: Callable[..., Result]) -> None:
    done = invoke(*WORDS, "--states-max", "50")
    assert done.exit_code == UNDECIDED
    assert "not everything within" in done.output


def test_what_is_wrong_is_printed_step_by_step_and_replayed(invoke: Callable[..., Result], monkeypatch: Patch) -> None:
    commit_without_a_quorum(monkeypatch)
    done = invoke(*WORDS)
    assert done.exit_code == SAFETY
    assert "durability: server" in done.output
    assert "is won by" in done.output, "what the peers said belongs to the steps"
    steps = done.output.rsplit("--replay '", 1)[1].rstrip().rstrip("'")
    again = invoke(*WORDS, "--replay", steps)
    assert again.exit_code == 0
    assert again.output.splitlines()[-1].startswith("durability: server")
    monkeypatch.undo()
    assert "durability" not in invoke(*WORDS, "--replay", steps).output


def test_what_is_wrong_after_given_steps_is_replayed_from_the_beginning(
    invoke: Callable[..., Result], monkeypatch: Patch
) -> None:
    commit_without_a_quorum(monkeypatch)
    done = invoke(*WORDS, "--given", SERVING)
    assert done.exit_code == SAFETY
    steps = done.output.rsplit("--replay '", 1)[1].rstrip().rstrip("'")
    assert steps.startswith("lead 3; follow 1 3; follow 2 3; message 1-3 3; ")
    assert invoke(*WORDS, "--replay", steps).output.splitlines()[-1].startswith("durability: server")
    assert invoke(*WORDS, "--given", steps).exit_code == SAFETY, "it is wrong before anything is explored"
    assert invoke(*WORDS, "--given", "lead 3; settle; store 2").exit_code == 2


@pytest.mark.long
def test_the_commands_of_the_page_that_are_given_steps_run(invoke: Callable[..., Result]) -> None:
    commands = re.findall(r"^    zab explore (.*--(?:given|replay|world|partitions) .*)$", PAGE, re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        done = invoke(*shlex.split(command))
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("name", "bounds", "given"),
    [
        ("", TWO_WRITES, A_WRITE_OF_ITS_OWN),
        ("*forgotten*: ", ONE_ROLLBACK, A_PROMISE_THAT_IS_FORGOTTEN),
        ("*overtaken*: the tail, then ", OLDER_LEADER, OVERTAKEN),
        ("*lower*: ", THREE_SILENCES, LOWER),
        ("*five*: ", FIVE_VOTERS, FIVE),
    ],
)
def test_the_worlds_of_the_page_that_begin_with_steps_are_right(name: str, bounds: Bounds, given: str) -> None:
    """Five voters have too many states: only the beginning is explored."""
    steps = given.removeprefix(A_WRITE_OF_ITS_OWN + "; ") if "tail" in name else given
    assert f"{name}`{steps}`" in " ".join(PAGE.split())
    report = explore(bounds, steps_of(given), states_max=50 if bounds.voters == 5 else 5000)
    assert report.found is None, f"{report.found}"
    assert report.is_whole or bounds.voters == 5


@pytest.mark.parametrize(
    "words",
    [
        *[
            ("--partitions", "--voters", "2", name, "1")
            for name in ("--breaks", "--silences", "--rollbacks", "--empty")
        ],
        ("--partitions", "--voters", "2", "--hand-overs", "1"),
        ("--partitions", "--voters", "2", "--given", "write 1"),
        ("--partitions", "--voters", "2", "--world", "move"),
        ("--partitions", "--voters", "2", "--min-in-sync", "3"),
        ("--partitions", "--voters", "4"),
        *[(name, "1") for name in ("--expiries", "--losses", "--moves")],
        ("--min-in-sync", "2"),
    ],
)
def test_options_of_the_other_explorer_are_refused(invoke: Callable[..., Result], words: tuple[str, ...]) -> None:
    assert invoke(*words).exit_code == 2


def test_steps_that_cannot_come_are_wrong_usage(invoke: Callable[..., Result]) -> None:
    assert invoke(*WORDS, "--replay", "store 1").exit_code == 2
    assert invoke(*WORDS, "--replay", "message 1-2 2").exit_code == 2
    for words in ("jump", "down", "message 1", "message 1-99 1", "store x"):
        assert invoke(*WORDS, "--replay", words).exit_code == 2, words


@pytest.mark.slow
def test_steps_are_read_as_they_are_shown() -> None:
    ensemble = Ensemble(Bounds(epochs=2, writes=1, crashes=1, breaks=1, silences=1))
    steps = {step for seed in range(20) for _, step in walk(ensemble, Random(seed), 40)}
    steps.add(("down", (link_of(3, 1, 2), 1)))
    assert all(parsed(shown(step)) == step for step in steps)
