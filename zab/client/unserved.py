"""Why servers that can be reached serve nobody: asked with the four-letter word `srvr`, when a command found no server.

    why_unserved("a:2181,b:2181") -> "a:2181: no service: …"      None where no server says it

Each server is asked once, for `ASK_SECONDS` at most, until one says it. Over TLS nobody is asked: it would not be known
who answers.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from zab.client.core.hosts import Host, parse_hosts

ASK_SECONDS: Final = 1.0
SERVERS_MAX: Final = 9
ANSWER_BYTES_MAX: Final = 4096
BEGINNING: Final = "no service: "


def why_unserved(hosts: str) -> str | None:
    """What the first server says that can be reached and serves nobody."""
    servers, _chroot = parse_hosts(hosts)
    for server in servers[:SERVERS_MAX]:
        for line in _answer(server).splitlines():
            if line.startswith(BEGINNING):
                return f"{server}: {line}"
    return None


def _answer(server: Host) -> str:
    """What it says to `srvr`; empty where it says nothing."""
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection(server, ASK_SECONDS) as connection:
        connection.settimeout(ASK_SECONDS)
        connection.sendall(b"srvr")
        while len(answer) < ANSWER_BYTES_MAX and (piece := connection.recv(ANSWER_BYTES_MAX)):
            answer += piece
    return answer.decode(errors="replace")
