"""What a client with a good certificate does inside of TLS, below what it says in clear."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path

import pytest

from tests.hostile.conftest import Targets
from tests.hostile.ensembles import SECURE
from tests.hostile.raw import SECURED, Client, connect, is_closed_by_the_other, say
from tests.rigs.key_updates import Sealer, client_secret

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.long]

MIB = 1 << 20
UNFINISHED = (4000).to_bytes(4, "big")
"""The length of a first frame, which then comes byte by byte."""
ENDS_SECONDS = 5.0
"""Far less than a connection without a session may be silent."""


def under_tls(port: int, key_log: Path) -> tuple[socket.socket, Sealer]:
    """The socket below a connection whose handshake is done."""
    SECURED[port].keylog_filename = str(key_log)
    with connect(port) as sock:
        raw = socket.socket(fileno=os.dup(sock.fileno()))
        raw.settimeout(ENDS_SECONDS)
    return raw, Sealer(client_secret(key_log))


@pytest.mark.parametrize("wants_answer", [False, True], ids=["unanswered", "answered"])
@pytest.mark.parametrize("beside", [0, 20], ids=["alone", "beside data"])
def test_new_keys_without_end(targets: Targets, tmp_path: Path, wants_answer: bool, beside: int) -> None:
    """Eight clients renew their keys of TLS all the time, a megabyte of it in all. No data came of it, so nothing
    counted it, and each megabyte took two seconds of the processor. Now a connection may do so 32 times beside its
    data."""
    target = targets.of(SECURE)
    port = target.leader.client_port
    with contextlib.closing(Client(port)):
        pass
    with target.attacked(), contextlib.ExitStack() as stack:
        threads = []
        for _ in range(8):
            raw, sealer = under_tls(port, tmp_path / "keys")
            stack.callback(raw.close)
            said = [sealer.data(UNFINISHED)]
            for number in range(MIB // 8 // 27):
                said.append(sealer.key_update(wants_answer=wants_answer))
                if beside and number % beside == 0:
                    said.append(sealer.data(b"\0"))
            threads.append(threading.Thread(target=say, args=(raw, b"".join(said))))
            stack.callback(is_closed_by_the_other, raw)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
