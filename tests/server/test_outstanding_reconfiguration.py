"""A reconfiguration that is not decided when the old servers end: it goes on when enough of both are there.

Scenarios of ZooKeeper's ReconfigRecoveryTest. There a file says what is outstanding; here the history does (D65), so
servers are stopped in the middle of a change.
"""

from __future__ import annotations

import signal
import threading

import pytest

from tests.rigs.growing import ELECTION, QUORUM, Growing, grown
from tests.rigs.waiting import until
from zab.client.core.exceptions import RequestError
from zab.client.sync import connect

pytestmark = pytest.mark.slow

UNHEARD = "no service: there is no quorum; servers 4, 5 were not heard"


def held(servers: Growing, *sids: int) -> None:
    for sid in sids:
        servers.members[sid].process.send_signal(signal.SIGSTOP)  # type: ignore[union-attr]


def released(servers: Growing, *sids: int) -> None:
    for sid in sids:
        servers.members[sid].process.send_signal(signal.SIGCONT)  # type: ignore[union-attr]


@pytest.mark.longest
def test_what_no_quorum_of_the_new_servers_has_waits_for_them_whoever_is_restarted() -> None:
    """Three hand over to two new ones, and stay as observers, on other ports. The new ones stand still when it is
    proposed, and the old ones are killed. Without a new one nothing goes on, since it might be decided elsewhere."""
    with grown("zab", 3) as servers:
        old, new = (1, 2, 3), (4, 5)
        before = [servers.line(sid) for sid in old]
        for sid in new:
            servers.start(sid, *before, servers.line(sid))
        servers.wait(*new)
        leader = servers.leader()
        held(servers, *new)
        for sid in old:
            servers.move(sid, QUORUM, ELECTION)
        after = [*(servers.line(sid, "observer") for sid in old), *(servers.line(sid) for sid in new)]
        while (asked := proposed(servers, leader, after)) is None:
            # The machine stood still for so long that those which are held were given up before it was asked for.
            released(servers, *new)
            servers.wait(*new)
            held(servers, *new)
        # All three have it, and know that it is not decided.
        for sid in old:
            until(lambda sid=sid: has_logged_more(servers, sid), f"server {sid} has it")  # type: ignore[misc]
        servers.kill(*old)
        asked.join()

        for sid in old:
            servers.members[sid].start()
        for sid in old:
            member = servers.members[sid]
            until(lambda member=member: UNHEARD in member.log_text(), UNHEARD)  # type: ignore[misc]
            assert member.mode() == ""
        released(servers, *new)
        servers.wait(*old, *new)
        servers.show(after, *old, *new)
        for sid in old:
            servers.has_mode(sid, "observer")
        servers.work(1, 4, 5)
        servers.kill(*old)
        servers.work(*new)


def proposed(servers: Growing, leader: int, lines: list[str]) -> threading.Thread | None:
    """The client that waits for the answer to what the leader has logged; None: it was refused."""
    asked = threading.Thread(target=ask, args=(servers, leader, lines))
    asked.start()
    until(lambda: has_logged_more(servers, leader) or not asked.is_alive(), "it is proposed, or refused")
    return asked if has_logged_more(servers, leader) else None


def ask(servers: Growing, sid: int, lines: list[str]) -> None:
    """Nobody answers."""
    with connect(servers.members[sid].host, session_timeout_ms=20_000) as zk:
        try:
            zk.reconfig(members=",".join(lines))
        except RequestError:
            return
    raise AssertionError("it is done")


def has_logged_more(servers: Growing, sid: int) -> bool:
    figures = [servers.figure(sid, name) for name in ("durable_zxid", "committed_zxid")]
    return all(figures) and int(figures[0], 0) > int(figures[1], 0)
