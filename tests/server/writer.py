"""A client that writes all the time while an ensemble changes under it, and a member that is started again."""

from __future__ import annotations

import threading
import time
from typing import Self

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError
from kazoo.retry import KazooRetry

from tests.rigs.zookeeper_server import ZooKeeperMember


class Writer:
    """A client that creates one znode after the other, each again until it is there, on a thread of its own."""

    def __init__(self, hosts: str) -> None:
        self._client = KazooClient(
            hosts=hosts, timeout=40.0, connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 0.2}
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: list[str] = []
        self.states: list[str] = []

    def __enter__(self) -> Self:
        self._client.add_listener(self.states.append)
        self._client.start(timeout=60)
        self._client.create("/mine", ephemeral=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._thread.join(60)
        self._client.stop()
        self._client.close()

    def _run(self) -> None:
        while not self._is_over.is_set():
            path = f"/w{len(self.acknowledged):06d}"
            try:
                self._client.create(path)
            except NodeExistsError:
                pass  # the connection broke before the answer
            except (KazooException, OSError):
                continue
            self.acknowledged.append(path)

    def wait_for_more(self, count: int) -> None:
        """Until so many more are acknowledged."""
        wanted, deadline = len(self.acknowledged) + count, time.monotonic() + 60
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, self.states
            time.sleep(0.02)

    def check(self) -> None:
        """Nothing that was acknowledged is lost, and the session lives."""
        count = len(self.acknowledged)
        assert count > 0
        assert "LOST" not in self.states
        # A connection may break here as well as in the thread that writes.
        again = KazooRetry(max_tries=-1, delay=0.05, max_delay=0.2, deadline=60, ignore_expire=False)
        again(self._client.sync, "/")
        there = set(again(self._client.get_children, "/"))
        assert {"mine", *(path[1:] for path in self.acknowledged[:count])} <= there


def restart(member: ZooKeeperMember, *lines: str) -> None:
    """With these lines at the end of its file."""
    member.stop()
    text = member.config.read_text()
    member.config.write_text(text + "".join(f"{line}\n" for line in lines))
    member.start()
