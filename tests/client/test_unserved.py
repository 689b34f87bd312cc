"""Why servers that can be reached serve nobody, as they say to four-letter words."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from zab.client.unserved import READ_ONLY, why_unserved

REFUSED = "{} is not executed because it is not in the whitelist.\n"
SERVED = "Zookeeper version: 3.9.5\nMode: follower\n"


@contextmanager
def saying(answers: Mapping[str, str]) -> Iterator[str]:
    """A server that answers these words, and no other."""

    class Answering(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            word = self.request.recv(4).decode()
            self.request.sendall(answers.get(word, REFUSED.format(word)).encode())

    with socketserver.TCPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (
            {"srvr": "This ZooKeeper instance …\nno service: server 3 was not heard\n"},
            "no service: server 3 was not heard",
        ),
        ({"srvr": f"{SERVED}{READ_ONLY}: there is no quorum\n"}, f"{READ_ONLY}: there is no quorum"),
        ({"isro": "ro"}, READ_ONLY),
        ({"srvr": SERVED, "isro": "ro\n"}, READ_ONLY),
        ({"srvr": SERVED, "isro": "rw"}, None),
        ({"srvr": SERVED}, None),
        ({"srvr": "", "isro": "ro"}, None),
    ],
)
def test_what_a_server_says(answers: dict[str, str], said: str | None) -> None:
    with saying(answers) as host:
        assert why_unserved(host) == (None if said is None else f"{host}: {said}")
