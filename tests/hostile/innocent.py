"""A process of innocent clients: one session with each member, short timeouts, a read and a write every few
milliseconds.

    python -m tests.hostile.innocent DIRECTORY TIMEOUT_MS PORT…

DIRECTORY is that of the certificate that they show; "-": the ports have no TLS.

Each line on its input is answered by one of JSON on what has been since the last one: how long the longest wait was,
how many requests were answered by the one who answered least, how many connections broke, how many sessions expired.
It is a process of its own, so that what an attacker does in the test's process keeps nobody here waiting.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from tests.hostile.raw import SECURED, Client, shown

PAUSE_SECONDS = 0.01
PATH = "/innocent"


class Innocent:
    """The session with one member."""

    def __init__(self, port: int, timeout_ms: int) -> None:
        self._port = port
        self._timeout_ms = timeout_ms
        self._client = Client(port, timeout_ms=timeout_ms)
        self._given = self._client.given
        self.longest_ns = self.answered = self.broken = self.expired = 0
        self._began_ns = 0
        threading.Thread(target=self._run, daemon=True).start()

    def report(self) -> dict[str, int]:
        """Since the last one. What waits now counts, too."""
        waited_ns = time.monotonic_ns() - self._began_ns if self._began_ns else 0
        said = {
            "longest_us": max(self.longest_ns, waited_ns) // 1000,
            "answered": self.answered,
            "broken": self.broken,
            "expired": self.expired,
        }
        self.longest_ns = self.answered = self.broken = self.expired = 0
        return said

    def _run(self) -> None:
        count = 0
        while True:
            count += 1
            try:
                self._timed(lambda: self._client.get_data(PATH))
                self._timed(lambda: self._client.set_data(PATH, b"x"))
            except (OSError, EOFError):
                self.broken += 1
                self._connect_again()
            time.sleep(PAUSE_SECONDS)

    def _timed(self, do) -> None:  # type: ignore[no-untyped-def]
        self._began_ns = time.monotonic_ns()
        do()
        self.longest_ns = max(self.longest_ns, time.monotonic_ns() - self._began_ns)
        self._began_ns = 0
        self.answered += 1

    def _connect_again(self) -> None:
        self._client.close()
        given = self._given
        while True:
            try:
                self._client = Client(self._port, given.session_id, given.password, timeout_ms=self._timeout_ms)
            except (OSError, EOFError):
                time.sleep(PAUSE_SECONDS)
                continue
            if self._client.given.session_id:
                return
            self.expired += 1
            self._client.close()
            given = self._given = Client(self._port, timeout_ms=self._timeout_ms).given


def main() -> None:
    holder, *numbers = sys.argv[1:]
    timeout_ms, *ports = map(int, numbers)
    if holder != "-":
        SECURED.update(dict.fromkeys(ports, shown(Path(holder))))
    first = Client(ports[0])
    first.create(PATH)
    first.close()
    innocents = [Innocent(port, timeout_ms) for port in ports]
    for _ in sys.stdin:
        reports = [innocent.report() for innocent in innocents]
        print(
            json.dumps(
                {
                    name: {"longest_us": max, "answered": min}.get(name, sum)(report[name] for report in reports)
                    for name in reports[0]
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
