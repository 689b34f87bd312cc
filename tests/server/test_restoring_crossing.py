"""Callers that give running members different snapshots at once, and what becomes of who is connected (B8 restored
members)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.cli.commands import call
from tests.rigs.admin_servers import Running, administered
from tests.rigs.waiting import until
from tests.server.restoring import AUTHORIZATION, kazoo_at, modes, restore, snapshot_of

pytestmark = pytest.mark.slow


def two_states(ensemble: Running) -> list[bytes]:
    """With /kept as it was before it was written again, twice."""
    snapshots = []
    with kazoo_at(ensemble) as client:
        client.create("/kept", b"")
        for data in (b"first", b"second"):
            client.set("/kept", data)
            client.sync("/")
            snapshots.append(snapshot_of(ensemble))
        client.set("/kept", b"third")
    return snapshots


def given(ensemble: Running, each: list[tuple[int, bytes]]) -> list[str]:
    """All at once; the lineages that were told. Others are refused, or find a server that starts again."""

    def give(to: tuple[int, bytes]) -> str | None:
        try:
            answer = ensemble.post(to[0], "/commands/restore", to[1], Authorization=AUTHORIZATION)
        except httpx.TransportError:
            return None
        assert answer.status_code in (200, 429), answer.text
        return answer.json().get("lineage")

    with ThreadPoolExecutor(len(each)) as threads:
        return [lineage for lineage in threads.map(give, each) if lineage is not None]


def test_of_several_at_once_whoever_is_told_a_lineage_is_right() -> None:
    with administered(3) as three:
        first, second = two_states(three)
        [one, *_] = three.servers.members
        told = given(three, [(1, first), (1, second), (1, first), (1, second)])
        assert told
        until(lambda: one.log_text().count("goes on with a snapshot that was restored") >= len(told))
        assert all(f"lineage={lineage}" in one.log_text() for lineage in told)
        with kazoo_at(three, 2, 3) as client:
            assert client.get("/kept")[0] == b"third"


@pytest.mark.longest
def test_different_states_at_once_have_no_quorum_and_the_status_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with administered(3) as three:
        first, second = two_states(three)
        assert len(set(given(three, [(1, first), (2, second)]))) == 2
        until(lambda: modes(three) == ["", "", ""])
        for member in three.servers.members:
            until(lambda member=member: "another history, as after a restore" in member.log_text())
        said = call(capsys, "-s", three.servers.hosts, "status", "--admin", f"127.0.0.1:{three.admin[1]}")
        assert "another history" in said.out, said
        restore(three, 3, second)
        with kazoo_at(three, 2, 3) as client:
            assert client.get("/kept")[0] == b"second"


@pytest.mark.long
def test_who_has_a_local_session_begins_a_new_one() -> None:
    with administered(3, localSessionsEnabled="true", localSessionsUpgradingEnabled="true") as three:
        first, _ = two_states(three)
        with kazoo_at(three) as client:
            before = client.client_id
            for sid in (1, 2, 3):
                restore(three, sid, first)
            until(lambda: client.connected and client.client_id != before)
            assert client.retry(client.get, "/kept")[0] == b"first"
            client.retry(client.create, "/mine", b"", ephemeral=True)
