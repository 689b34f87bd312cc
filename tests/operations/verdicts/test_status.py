"""The status of an ensemble, out of answers that are written down here."""

from __future__ import annotations

import pytest

from zab.configuration.reconfiguration import ensemble_of
from zab.operations.verdicts.answers import Answer, Figures, of_mntr, of_monitor, of_srvr, refusal_of, waits_for
from zab.operations.verdicts.status import CRITICAL, DAYS_MIN, FSYNC_MS_MAX, LAG_MAX, WARNING, Status, status_of
from zab.service.version import shown

ENSEMBLE = ensemble_of(
    b"server.1=a:2888:3888:participant;0.0.0.0:2181\n"
    b"server.2=b:2888:3888:participant;0.0.0.0:2181\n"
    b"server.3=c:2888:3888:participant;0.0.0.0:2181\n"
    b"server.4=d:2888:3888:observer;0.0.0.0:2181\nversion=0"
)

LEADER: Figures = {
    "server_state": "leader",
    "version": shown("0.1.0"),
    "applied_zxid": 0x100000064,
    "quorum_size": 3,
    "synced_followers": 2,
    "2_learner_lag": 0,
    "learner_lag_3": 7,
}
FOLLOWER: Figures = {"server_state": "follower", "version": shown("0.1.0"), "applied_zxid": 0x100000060}


def answer(sid: int, figures: Figures, **more: object) -> Answer:
    return Answer(f"{' abcd'[sid]}:2181", sid, source="mntr", figures=figures, **more)  # type: ignore[arg-type]


def whole(**of_follower: float | str) -> list[Answer]:
    follower = {**FOLLOWER, **of_follower}
    observer = {**FOLLOWER, "server_state": "observer"}
    return [answer(1, LEADER), answer(2, follower), answer(3, FOLLOWER), answer(4, observer)]


def names(status: Status) -> list[tuple[str, str, str]]:
    return [(alarm.severity, alarm.name, alarm.server) for alarm in status.alarms]


def test_a_whole_ensemble_is_well() -> None:
    status = status_of(whole(), ENSEMBLE)
    assert status.is_well
    assert (status.leader, status.quorum) == ("a:2181", (3, 2))
    assert [member.state for member in status.members] == ["leader", "follower", "follower", "observer"]
    assert [member.role for member in status.members] == ["participant"] * 3 + ["observer"]
    # What the leader says counts; of whom it says nothing, the zxids are compared.
    assert [member.lag for member in status.members] == [None, 0, 7, 4]


def test_a_member_in_an_older_epoch_is_behind_by_all_of_the_new_one() -> None:
    old = {**FOLLOWER, "applied_zxid": 0x0FFFFFFFF}
    leader = {**LEADER, "2_learner_lag": "x"}
    assert status_of([answer(1, leader), answer(2, old)], ENSEMBLE).members[1].lag == 0x64


@pytest.mark.parametrize(
    ("figures", "alarm"),
    [
        ({"disk_space": 0}, (CRITICAL, "disk_full")),
        ({"disk_space": 1}, (WARNING, "disk_full")),
        ({"writes_refused_for_room": 1}, (CRITICAL, "writes_refused")),
        ({"avg_fsynctime": FSYNC_MS_MAX + 0.5}, (WARNING, "disk_slow")),
        ({"digest_mismatches_count": 1}, (CRITICAL, "wrong_tree")),
        ({"damage_found": 1}, (WARNING, "damage_found")),
        ({"audit_records_lost": 2}, (WARNING, "audit_lost")),
        ({"num_alive_connections": 86, "connection_limit": 100}, (WARNING, "limit_near")),
        ({"most_watches": 86, "watch_limit": 100}, (WARNING, "limit_near")),
        ({"open_file_descriptor_count": 86, "max_file_descriptor_count": 100}, (WARNING, "limit_near")),
    ],
)
def test_a_figure_beyond_its_bound_is_an_alarm(figures: dict[str, int | float], alarm: tuple[str, str]) -> None:
    assert names(status_of(whole(**figures), ENSEMBLE)) == [(*alarm, "b:2181")]


@pytest.mark.parametrize(
    "figures",
    [
        {"disk_space": 2},
        {"avg_fsynctime": float(FSYNC_MS_MAX)},
        {"num_alive_connections": 85, "connection_limit": 100},
        {"num_alive_connections": 85, "connection_limit": 0},
        {"most_watches": 85, "watch_limit": 100},
    ],
)
def test_a_figure_at_its_bound_is_none(figures: dict[str, int | float]) -> None:
    assert status_of(whole(**figures), ENSEMBLE).is_well


def test_a_learner_far_behind() -> None:
    leader = {**LEADER, "2_learner_lag": LAG_MAX + 1, "learner_lag_3": LAG_MAX}
    answers = [answer(1, leader), answer(2, FOLLOWER), answer(3, FOLLOWER)]
    assert names(status_of(answers)) == [(WARNING, "lagging", "b:2181")]


def test_certificates_that_end() -> None:
    answers = [
        answer(1, LEADER, days_left=0.5),
        answer(2, FOLLOWER, days_left=DAYS_MIN - 1),
        answer(3, FOLLOWER, days_left=DAYS_MIN + 1),
    ]
    assert names(status_of(answers)) == [
        (CRITICAL, "certificate_ends", "a:2181"),
        (WARNING, "certificate_ends", "b:2181"),
    ]


def test_missing_members_and_no_spare_voter() -> None:
    missing = Answer("c:2181", 3, "connection refused")
    answers = [answer(1, {**LEADER, "synced_followers": 1}), answer(2, FOLLOWER), missing]
    assert names(status_of(answers)) == [
        (WARNING, "no_spare_voter", ""),
        (WARNING, "unreachable", "c:2181"),
    ]


def test_without_a_leader() -> None:
    looking = Answer("a:2181", 1, "it serves nobody", "servers 2, 3 were not heard", "srvr")
    gone = Answer("b:2181", 2, "connection refused")
    assert names(status_of([looking, gone], None)) == [
        (CRITICAL, "no_leader", ""),
        (WARNING, "not_serving", "a:2181"),
        (WARNING, "unreachable", "b:2181"),
    ]
    assert names(status_of([gone], None))[0] == (CRITICAL, "no_leader", "")


def test_members_that_were_not_asked_are_named() -> None:
    not_asked = [(WARNING, "not_asked", "")]
    assert names(status_of(whole()[:3], ENSEMBLE)) == not_asked
    assert names(status_of(whole()[1:2], ENSEMBLE)) == not_asked
    # It may be the fourth.
    unknown = Answer("x:2181", None, source="srvr", figures=FOLLOWER)
    assert status_of([*whole()[:3], unknown], ENSEMBLE).is_well
    assert names(status_of([unknown], None)) == not_asked


def test_a_leader_that_does_not_answer_is_no_server_that_somebody_forgot_to_name() -> None:
    mute = Answer("a:2181", None, "it does not answer in time")
    [alarm, unreachable] = status_of([mute, answer(2, FOLLOWER), answer(3, FOLLOWER)]).alarms
    assert (alarm.name, alarm.reason) == ("not_asked", "the leader is none of those that answer")
    assert unreachable.server == "a:2181"


def test_a_leader_that_has_lost_its_quorum() -> None:
    answers = [answer(1, {**LEADER, "synced_followers": 0})]
    assert (CRITICAL, "no_quorum", "") in names(status_of(answers, ENSEMBLE))


def test_who_follows_and_is_no_voter_makes_no_quorum() -> None:
    answers = [answer(1, {**LEADER, "synced_followers": 1, "synced_non_voting_followers": 1})]
    assert (CRITICAL, "no_quorum", "") in names(status_of(answers, ENSEMBLE))


def test_a_lost_history_and_two_leaders_are_said() -> None:
    lost = Answer(
        "b:2181", 2, "it serves nobody", "this member has no data, or lost it, and is no part of a quorum", "srvr"
    )
    assert (WARNING, "history_lost", "b:2181") in names(status_of([answer(1, LEADER), lost]))
    alone = "there is no quorum; server 1 has no data, or lost it, and is no part of a quorum"
    assert (WARNING, "not_serving", "c:2181") in names(
        status_of([Answer("c:2181", 3, "it serves nobody", alone, "srvr")])
    )
    other = "there is no quorum; servers 1, 2 have another history, as after a restore"
    assert (WARNING, "other_history", "c:2181") in names(
        status_of([Answer("c:2181", 3, "it serves nobody", other, "srvr")])
    )
    found = names(status_of([answer(1, LEADER), answer(2, LEADER)]))
    assert found == [(WARNING, "two_leaders", "")]


FULL = "this member's disk is full, and it takes part in nothing until there is room"
NEARLY_FULL = "this member's disk is nearly full, and it waits while others have room; it is not synchronized with"


@pytest.mark.parametrize(("waits", "severity"), [(FULL, CRITICAL), (NEARLY_FULL, WARNING)])
def test_a_member_that_its_disk_keeps_from_serving(waits: str, severity: str) -> None:
    """It says so by words, or by its admin port."""
    for kept in (
        Answer("c:2181", 3, "it serves nobody", waits, "mntr"),
        answer(3, {**FOLLOWER, "disk_space": severity == WARNING, "waits_for": waits}, waits=waits),
    ):
        [alarm] = status_of([answer(1, LEADER), answer(2, FOLLOWER), kept]).alarms
        assert (alarm.severity, alarm.name, alarm.server) == (severity, "disk_full", "c:2181")
        assert (alarm.reason, alarm.action) == (waits, "make room on that disk")


def test_members_without_room_that_do_not_say_so_are_counted_by_the_leader() -> None:
    older = Answer("c:2181", 3, "it serves nobody", "this member is not synchronized with server 1 yet", "mntr")
    answers = [answer(1, {**LEADER, "members_without_room": 1}), answer(2, FOLLOWER), older]
    status = status_of(answers)
    assert names(status) == [(WARNING, "not_serving", "c:2181"), (WARNING, "disk_full", "")]
    assert status.alarms[1].reason == "1 member has little room on the disk, as the leader says"
    answers[2] = Answer("c:2181", 3, "it serves nobody", NEARLY_FULL, "mntr")
    assert names(status_of(answers)) == [(WARNING, "disk_full", "c:2181")], "that one is told of once"
    answers[0] = answer(1, {**LEADER, "members_without_room": 3, "disk_space": 1})
    status = status_of(answers)
    assert names(status)[:2] == [(WARNING, "disk_full", "a:2181"), (WARNING, "disk_full", "c:2181")]
    assert status.alarms[2].reason == "1 other member has little room on the disk, as the leader says"


def test_a_member_in_read_only_mode_says_that_and_who_was_not_heard() -> None:
    waits = "there is no quorum; servers 2, 3 were not heard"
    for kept in (
        answer(1, {"server_state": "read-only", "waits_for": waits}, waits=waits),
        answer(1, {"server_state": "read-only"}),
    ):
        status = status_of([kept])
        assert names(status) == [(CRITICAL, "no_leader", ""), (WARNING, "not_serving", "a:2181")]
        expected = kept.waits or "it looks for a leader"
        assert status.alarms[1].reason == f"it serves readers alone, in read-only mode: {expected}"


def test_two_versions_of_this_package_are_said_though_they_speak_the_same_protocol() -> None:
    assert not status_of(whole(), ENSEMBLE).alarms
    newer = {**FOLLOWER, "version": shown("0.2.0")}
    status = status_of([*whole()[:1], answer(2, newer), *whole()[2:]], ENSEMBLE)
    [alarm] = status.alarms
    assert (alarm.severity, alarm.name) == (WARNING, "versions_differ")
    assert alarm.reason == "members run 3.9.5-zab-0.1.0 and 3.9.5-zab-0.2.0"


SRVR = """Zookeeper version: 3.9.5-zab-0.1.0, built on 2026-01-01 00:00 UTC
Latency min/avg/max: 0/0.5625/9
Received: 10
Sent: 9
Connections: 1
Outstanding: 0
Zxid: 0x100000004
Mode: follower
Node count: 5
"""


def test_what_srvr_says() -> None:
    assert of_srvr(SRVR) == {
        "version": "3.9.5-zab-0.1.0, built on 2026-01-01 00:00 UTC",
        "min_latency": 0,
        "avg_latency": 0.5625,
        "max_latency": 9,
        "packets_received": 10,
        "packets_sent": 9,
        "num_alive_connections": 1,
        "outstanding_requests": 0,
        "applied_zxid": 0x100000004,
        "server_state": "follower",
        "znode_count": 5,
    }


def test_what_is_no_figure_is_passed_over() -> None:
    assert of_mntr("zk_a\t1\nzk_b\t2.5\nzk_c\tx y\nb\t3\nzk_d 4\nzk_e\t" + "9" * 40) == {
        "a": 1,
        "b": 2.5,
        "c": "x y",
        "e": "9" * 40,
    }
    assert of_monitor({"a": 1, "b": [2], "command": "monitor", "error": None}) == {"a": 1}
    assert of_monitor([1]) == {}
    assert of_srvr("Zxid: 0xzz\nLatency min/avg/max: x\nMode\n") == {}


def test_why_a_word_tells_nothing() -> None:
    assert refusal_of(SRVR) is None
    assert "whitelist" in str(refusal_of("mntr is not executed because it is not in the whitelist.\n"))
    text = "This ZooKeeper instance is not currently serving requests\nno service: server 3 was not heard\n"
    assert refusal_of(text) == "it serves nobody"
    assert waits_for(text, {}) == "server 3 was not heard"
    assert waits_for(f"{SRVR}no service but to readers: there is no quorum\n", of_srvr(SRVR)) == "there is no quorum"
    assert waits_for("", of_mntr("zk_waits_for\tserver 3 was not heard\n")) == "server 3 was not heard"
    assert waits_for(SRVR, of_srvr(SRVR)) == ""
    assert refusal_of("\n") == "it says nothing"
