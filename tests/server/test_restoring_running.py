"""Running members are given a snapshot, one after the other, and go on with it (B8 restored members)."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.conformance.wire import Wire
from tests.rigs.admin_servers import Running, administered
from tests.rigs.waiting import until
from tests.server.restoring import AUTHORIZATION, kazoo_at, modes, restore, snapshot_of

pytestmark = pytest.mark.slow


def left_behind(ensemble: Running) -> bytes:
    """A state with /kept as it was before it was written again."""
    with kazoo_at(ensemble) as client:
        client.create("/kept", b"old")
        snapshot = snapshot_of(ensemble)
        client.set("/kept", b"new")
    return snapshot


def test_a_server_by_itself_goes_on_with_it() -> None:
    with administered(1) as alone:
        [member] = alone.servers.members
        with kazoo_at(alone) as client:
            client.create("/kept", b"old")
            snapshot = snapshot_of(alone)
            client.set("/kept", b"new")
            client.create("/gone", b"")
        told = restore(alone, 1, snapshot)
        alone.servers.wait()
        stats = alone.get(1, "/commands/server_stats").json()["server_stats"]
        assert stats["last_processed_zxid"] == told["last_zxid"]
        with kazoo_at(alone) as client:
            assert client.get("/kept")[0] == b"old"
            assert client.exists("/gone") is None
            client.create("/after", b"")
        member.stop()
        member.start()
        alone.servers.wait()
        with kazoo_at(alone) as client:
            assert sorted(client.get_children("/")) == ["after", "kept", "zookeeper"]
        assert member.log_text().count("this member goes on with a snapshot that was restored") == 1
        assert not (member.data_directory / "version-1.restored").exists()


@pytest.mark.long
def test_of_three_a_majority_is_the_ensemble_at_any_time() -> None:
    with administered(3) as three:
        snapshot = left_behind(three)
        lineage = restore(three, 1, snapshot)["lineage"]
        # The others go on with what they have, and nobody serves what the first one has.
        with kazoo_at(three, 2, 3) as client:
            assert client.get("/kept")[0] == b"new"
            client.create("/lost", b"")
            seen = client.exists("/lost").czxid
        assert modes(three)[0] == ""
        assert restore(three, 2, snapshot)["lineage"] == lineage
        # Now these two are the majority, and the third one no longer serves.
        with kazoo_at(three, 1, 2) as client:
            assert client.get("/kept")[0] == b"old"
            assert client.exists("/lost") is None
        until(lambda: modes(three)[2] == "")
        assert restore(three, 3, snapshot)["lineage"] == lineage
        three.servers.wait()
        # A client that has seen what is gone may go on, with any of them.
        for member in three.servers.members:
            wire = Wire(member.client_port, last_zxid=seen)
            assert wire.session != 0
            wire.drop()
        # And each of them counts.
        three.servers.members[0].kill()
        with kazoo_at(three, 2, 3) as client:
            created = client.create("/after", b"", include_data=True)[1].czxid
        assert created >> 32 > seen >> 32, "no zxid comes a second time"


@pytest.mark.long
def test_one_that_was_not_given_it_is_filled_once_it_is_empty() -> None:
    with administered(3) as three:
        snapshot = left_behind(three)
        for sid in (1, 2):
            restore(three, sid, snapshot)
        last = three.servers.members[2]
        last.kill()
        shutil.rmtree(last.data_directory / "version-1")
        last.start()
        three.servers.wait()
        with kazoo_at(three, 3) as client:
            assert client.get("/kept")[0] == b"old"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the kernel does not say it there")
@pytest.mark.long
def test_the_tree_before_is_let_go_of() -> None:
    def resident_bytes() -> int:
        status = Path(f"/proc/{alone.servers.members[0].pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) << 10

    count = 40
    with administered(1) as alone:
        with kazoo_at(alone) as client:
            for number in range(count):
                client.create(f"/z{number}", random.randbytes(1_000_000))
            snapshot = snapshot_of(alone)
        restore(alone, 1, snapshot)
        alone.servers.wait()
        before = resident_bytes()
        for _ in range(4):
            restore(alone, 1, snapshot)
            alone.servers.wait()
        assert resident_bytes() < before + 2 * count * 1_000_000


@pytest.mark.long
def test_who_has_no_history_is_filled_by_the_others_and_not_by_this() -> None:
    with administered(3) as three:
        snapshot = snapshot_of(three)
        for member in three.servers.members:
            member.kill()
        first = three.servers.members[0]
        shutil.rmtree(first.data_directory / "version-1")
        first.start()
        until(lambda: first.log_text().count("listening") > 1)
        answer = three.post(1, "/commands/restore", snapshot, Authorization=AUTHORIZATION)
        assert (answer.status_code, answer.json()["error"]) == (
            503,
            "this member has no history of its own: the others fill it",
        )


def test_one_attempt_in_an_interval() -> None:
    with administered(1, **{"admin.rateLimiterIntervalInMS": 300_000}) as alone:
        snapshot = snapshot_of(alone)
        sent = [b"", b"x" * 100, snapshot[:-1], snapshot]
        attempts = [alone.post(1, "/commands/restore", each, Authorization=AUTHORIZATION) for each in sent]
        # What does not even begin as a snapshot costs nothing.
        assert [answer.status_code for answer in attempts] == [400, 400, 400, 429]
        assert alone.get(1, "/commands/mntr").json()["restore_rate_limited_count"] == 1
