"""Why servers that can be reached serve no clients: asked with four-letter words when a command found no server.

    why_unserved("a:2181,b:2181") -> "a:2181: no service: …"      None if no server says so
    READ_ONLY in that                                             it serves clients that accept read-only mode

The servers are asked `srvr`, one after the other, until one gives a reason. A server that answers without one is asked
`isro`, which every server answers that may be in read-only mode. A word takes at most `ASK_SECONDS`. Not used with TLS:
the answer would not be authenticated.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from zab.client.core.hosts import Host, parse_hosts

ASK_SECONDS: Final = 1.0
SERVERS_MAX: Final = 9
ANSWER_BYTES_MAX: Final = 4096
BEGINNING: Final = "no service"
READ_ONLY: Final = "no service but to readers"


def why_unserved(hosts: str) -> str | None:
    """What the first server says that can be reached and serves no clients, or only read-only ones."""
    servers, _chroot = parse_hosts(hosts)
    for server in servers[:SERVERS_MAX]:
        answer = _answer(server, b"srvr")
        for line in answer.splitlines():
            if line.startswith(BEGINNING):
                return f"{server}: {line}"
        if answer and _answer(server, b"isro").strip() == "ro":
            return f"{server}: {READ_ONLY}"
    return None


def _answer(server: Host, word: bytes) -> str:
    """The answer to a word; empty if there is none."""
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection((server.name, server.port), ASK_SECONDS) as connection:
        connection.settimeout(ASK_SECONDS)
        connection.sendall(word)
        while len(answer) < ANSWER_BYTES_MAX and (piece := connection.recv(ANSWER_BYTES_MAX)):
            answer += piece
    return answer.decode(errors="replace")
