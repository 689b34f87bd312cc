"""A client of TLS in memory."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

import pytest

from tests.rigs.certificates import server_context
from zab.host.tls.engine import TlsSide

FAR = 1 << 30


class Client:
    """The other side."""

    def __init__(
        self,
        trusted: Path,
        *,
        holder: Path | None = None,
        version: ssl.TLSVersion | None = None,
        key_log: Path | None = None,
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(trusted / "truststore.pem")
        if holder is not None:
            context.load_cert_chain(holder / "keystore.pem")
        if key_log is not None:
            context.keylog_filename = str(key_log)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def step(self, data: bytes = b"") -> bytes:
        """One more step of its handshake, and what it sends."""
        self.incoming.write(data)
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()

    def seal(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self.outgoing.read()

    def open(self, data: bytes) -> bytes:
        self.incoming.write(data)
        pieces = []
        while True:
            try:
                piece = self.tls.read(1 << 16)
            except ssl.SSLWantReadError:
                break
            if not piece:
                break
            pieces.append(piece)
        return b"".join(pieces)


def shake(side: TlsSide, client: Client, size: int = FAR) -> None:
    """The handshake, with so many bytes of the client at a time."""
    answer = b""
    for _ in range(10):
        said = client.step(answer)
        answer = b""
        for at in range(0, len(said), size):
            plain, out = side.feed(said[at : at + size], FAR)
            assert plain == b""
            answer += out
        if side.is_ready and not answer:
            return
    client.step(answer)
    assert side.is_ready


@pytest.fixture
def side(member) -> TlsSide:
    return TlsSide(server_context(member))


@pytest.fixture
def client(holder) -> Client:
    return Client(holder, holder=holder)
