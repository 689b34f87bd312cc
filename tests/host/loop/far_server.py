"""Another server at the far end of a socket: it shakes hands as it is told to, right or wrong, and then speaks."""

from __future__ import annotations

import socket

from zab.member.membership.greeting import AT_ELECTION_PORT, AT_QUORUM_PORT, Purpose
from zab.protocol.message import Message, decode, encode
from zab.wire.frames import frame
from zab.wire.handshake import NONCE_BYTES, Agreed, Dialling, Listening, Party, Secret, refusal
from zab.wire.records import MessageError

SECRET = Secret(bytes(range(32)))


class Other:
    """It has one socket, with a timeout. Anyone who owns the other end has to take its turns in between."""

    def __init__(self, sock: socket.socket, me: Party) -> None:
        self.socket = sock
        self._me = me
        self._dialling: Dialling | None = None
        self._listening: Listening | None = None
        self.agreed: Agreed | None = None

    # ------------------------------------------------------------------------------------------------------ handshakes

    def begin(self, to: int = 1, purpose: int = Purpose.QUORUM) -> None:
        """It has dialled: say `Hello`."""
        self._dialling = Dialling(self._me, to, purpose, bytes(NONCE_BYTES))
        self.socket.sendall(frame(self._dialling.hello()))

    def prove(self, change: bytes = b"", then: tuple[bytes, ...] = ()) -> None:
        """Take `Welcome`, and give proof: the right one, or one that is changed at its end. These payloads follow at
        once. Raises MessageError."""
        assert self._dialling is not None
        proof, self.agreed = self._dialling.welcomed(self.payload())
        kept = proof[: len(proof) - len(change)]
        self.socket.sendall(frame(kept + change) + b"".join(map(self._sealed, then)))

    def begin_and_prove(self) -> None:
        """What comes first is taken for the answer. Raises MessageError."""
        self._dialling = Dialling(self._me, 1, Purpose.QUORUM, bytes(NONCE_BYTES))
        self._dialling.welcomed(self.payload())

    def answer(self) -> None:
        """It was dialled: take `Hello`, and welcome or refuse. Raises MessageError."""
        self._listening = Listening(self._me, range(10), AT_QUORUM_PORT | AT_ELECTION_PORT, bytes(NONCE_BYTES))
        try:
            said = self._listening.welcome(self.payload())
        except MessageError as error:
            self.socket.sendall(frame(refusal(str(error))))
            raise
        self.socket.sendall(frame(said))

    def take_proof(self) -> None:
        """The end of that. Raises MessageError."""
        assert self._listening is not None
        self.agreed = self._listening.proven(self.payload())

    # ------------------------------------------------------------------------------------------------------- and after

    def sealed(self, message: Message) -> bytes:
        """A message as it is on the wire."""
        return self._sealed(encode(message))

    def _sealed(self, payload: bytes) -> bytes:
        assert self.agreed is not None
        return frame(payload if self.agreed.sending is None else self.agreed.sending.put(payload))

    def say(self, *messages: Message) -> None:
        self.socket.sendall(b"".join(map(self.sealed, messages)))

    def say_payload(self, payload: bytes) -> None:
        self.socket.sendall(self._sealed(payload))

    def hear(self) -> Message:
        """The next message."""
        assert self.agreed is not None
        payload = self.payload()
        return decode(payload if self.agreed.receiving is None else self.agreed.receiving.take(payload))

    def payload(self) -> bytes:
        """The payload of the next frame."""
        return self.raw(int.from_bytes(self.raw(4), "big"))

    def raw(self, count: int) -> bytes:
        """The next bytes."""
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            assert piece, "closed"
            data += piece
        return data

    def rest(self) -> bytes:
        """All that still comes, up to the end of the connection."""
        data = b""
        while piece := self.socket.recv(1 << 16):
            data += piece
        return data

    def is_open(self) -> bool:
        """Whether nothing has come, not even the end."""
        self.socket.settimeout(0.05)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        else:
            return False
        finally:
            self.socket.settimeout(60)
