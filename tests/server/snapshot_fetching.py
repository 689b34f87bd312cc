"""A server that lost its data and is given a snapshot."""

import shutil

from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.waiting import until

SMALL_LOGS = ("snapCount=50", "maxBatchBytes=1000", "maxRecentBytes=2000")


def check_that_a_snapshot_is_fetched(ensemble):
    [leader] = ensemble.with_mode("leader")
    lost = ensemble.with_mode("follower")[0]
    with kazoo_client(f"127.0.0.1:{leader.client_port}") as client:
        lost.kill()
        for taken_count in range(1, 6):
            create(client, range(60 * (taken_count - 1), 60 * taken_count))
            until(lambda count=taken_count: leader.log_text().count("snapshot is written") >= count)
        until(lambda: "removed old files" in leader.log_text())
        shutil.rmtree(lost.directory / "version-1")
        lost.start()
        ensemble.wait()
        assert "snapshot is fetched" in lost.log_text(), "the log of the leader reached back to the beginning"
        create(client, range(300, 320))
    with kazoo_client(f"127.0.0.1:{lost.client_port}") as client:
        client.sync("/")
        assert len([name for name in client.get_children("/") if name.startswith("n")]) == 320
    lost.kill()
    lost.start()
    ensemble.wait()


def create(client, numbers):
    for pending in [client.create_async(f"/n{number}", bytes(100)) for number in numbers]:
        pending.get(timeout=60)
