"""Notifies the supervisor of a service by systemd's protocol (sd_notify(3)): datagrams of KEY=value lines.

    READY=1        once: the service is ready
    STATUS=…       one line, for `systemctl status`
    WATCHDOG=1     repeatedly, from the loop: a supervisor that hears nothing for too long restarts the service
    STOPPING=1     the service stops

The environment says where to send them (NOTIFY_SOCKET), and how long the silence may be (WATCHDOG_USEC, for the process
WATCHDOG_PID). Nothing waits for the supervisor: a message that cannot be sent at once is sent with the next one.

Not here: when a service is ready, and the unit of systemd (`zab.cli.servers.service`).
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from typing import Final

from zab.host.loop.loop import Loop, now_ms

BEATS: Final = 3
"""How many messages are sent within the allowed silence, so that a late or lost one is harmless."""


class Supervisor:
    """The connection to the supervisor. All methods belong to one thread."""

    def __init__(self, address: str, silence_ms: int | None = None) -> None:
        """`address`: the path of a socket; an abstract one begins with `@`. `silence_ms`: the allowed silence; None: no
        watchdog. Raises OSError."""
        self._silence_ms = silence_ms
        self._unsent: dict[str, str] = {}
        """Values that are not sent yet."""
        self._is_ready = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setblocking(False)
            self._socket.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        except OSError:
            self._socket.close()
            raise

    def ready(self) -> None:
        """Send READY, once for any number of calls."""
        if not self._is_ready:
            self._is_ready = True
            self._say(READY="1")

    def status(self, text: str) -> None:
        """Send a status line."""
        self._say(STATUS=" ".join(text.split()))

    def stopping(self) -> None:
        self._say(STOPPING="1")

    def watch(self, loop: Loop) -> None:
        """Send watchdog messages as long as this loop takes turns."""
        if self._silence_ms is None:
            return
        beat_ms = max(self._silence_ms // BEATS, 1)

        def beat(now: int) -> None:
            self._say(WATCHDOG="1")
            timer.set(now + beat_ms)

        timer = loop.timer(beat)
        timer.set(now_ms())

    def _say(self, **said: str) -> None:
        self._unsent.update(said)
        # The supervisor may be gone, or read too slowly.
        with contextlib.suppress(OSError):
            self._socket.send("\n".join(f"{key}={value}" for key, value in self._unsent.items()).encode())
            self._unsent.clear()

    def close(self) -> None:
        self._socket.close()


def supervisor_of(environment: Mapping[str, str], pid: int) -> Supervisor | None:
    """The supervisor of the process `pid`; None if the environment names none. Raises OSError and ValueError if it
    cannot be used."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return None
    if not address.startswith(("/", "@")):
        raise ValueError(f"NOTIFY_SOCKET={address} is no path and no name of an abstract socket")
    is_meant = environment.get("WATCHDOG_PID", str(pid)) == str(pid)
    silence_us = int(environment.get("WATCHDOG_USEC", "0")) if is_meant else 0
    return Supervisor(address, silence_us // 1000 if silence_us > 0 else None)
