"""A server that lost its data and is given a snapshot."""

import contextlib
import shutil

from kazoo.client import KazooClient

from tests.rigs.waiting import until


@contextlib.contextmanager
def kazoo(hosts, timeout=30.0):
    client = KazooClient(
        hosts=hosts, timeout=timeout, connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 0.2}
    )
    client.start(timeout=60)
    try:
        yield client
    finally:
        client.stop()
        client.close()


SMALL_LOGS = ("snapCount=50", "maxBatchBytes=1000", "maxRecentBytes=2000")


def check_that_a_snapshot_is_fetched(ensemble):
    [leader] = ensemble.with_mode("leader")
    lost = ensemble.with_mode("follower")[0]
    with kazoo(f"127.0.0.1:{leader.client_port}") as client:
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
    with kazoo(f"127.0.0.1:{lost.client_port}") as client:
        client.sync("/")
        assert len([name for name in client.get_children("/") if name.startswith("n")]) == 320
    lost.kill()
    lost.start()
    ensemble.wait()


def create(client, numbers):
    for pending in [client.create_async(f"/n{number}", bytes(100)) for number in numbers]:
        pending.get(timeout=60)
