"""The links of a broker to the others on the real host: where it listens for them, and how it dials them.

Brokers prove to each other that they have the same secret (`zab.wire.handshake`). A broker without one listens, and
dials, within this machine alone. Where the listener for brokers speaks TLS, both ends show certificates, too.

Not here: what is said on links (`zab.partition.links`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

import attrs
import trio

from zab.broker.tls import ANY_BROKER, link_tls, reread_of
from zab.host.files.private_file import PrivateFileError
from zab.host.files.secret_file import read_secrets
from zab.host.loop.dial import Address, BeyondThisMachineError, local_addresses
from zab.host.loop.greeting import Greeting
from zab.host.loop.link_dial import dial_link
from zab.host.loop.links import Links
from zab.host.loop.loop import Loop
from zab.host.process.listening import listen
from zab.partition.links.messages import LINK_PROTOCOL, PURPOSES, FromLinks, Message
from zab.partition.settings.broker_config import BrokerConfig
from zab.partition.settings.listeners import Endpoint
from zab.service.failure import CONFIG_ERROR, ServerFailedError
from zab.tls.stores import StoreError
from zab.wire.handshake import Party

DIAL_SECONDS: Final = 5.0
VERSION: Final = 1
NOBODY: Final = (1 << 63) - 1
"""In place of the id of a broker that has none yet."""


class BrokerLinks:
    """See the docstring of the module. Everything belongs to the task of the loop."""

    def __init__(self, config: BrokerConfig, loop: Loop, broker_id: Callable[[], int]) -> None:
        """`broker_id` is asked at each handshake; negative: there is none yet. Raises ServerFailedError."""
        self._config = config
        self._loop = loop
        self._broker_id = broker_id
        path = config.replication.secret_file
        try:
            self._secrets = read_secrets(path) if path else ()
        except PrivateFileError as error:
            raise ServerFailedError(CONFIG_ERROR, f"broker.secretFile: {error}") from error
        try:
            self._tls = link_tls(config)
        except StoreError as error:
            raise ServerFailedError(CONFIG_ERROR, str(error)) from error
        self._greeting = Greeting(PURPOSES, lambda: ANY_BROKER, self._party, _take_over_nothing, tls=self._tls)
        self.links: Links[Message, FromLinks] = Links(loop, LINK_PROTOCOL, self._greeting)
        self._dials, self._dialled = trio.open_memory_channel[tuple[int, Endpoint]](1000)

    @property
    def secret(self) -> bytes:
        """What all brokers of the cluster have; empty: nothing."""
        return self._secrets[0].key if self._secrets else b""

    def _party(self) -> Party:
        own = self._broker_id()
        return Party(NOBODY if own < 0 else own, VERSION, VERSION, secrets=self._secrets, is_open=not self._secrets)

    async def listen(self) -> Endpoint:
        """Bind the port for other brokers; what they are told to connect to. Raises ServerFailedError."""
        listener = self._config.link_listener
        host = listener.host
        if not self._secrets:
            try:
                host = (await local_addresses(host))[0] if host else ""
            except OSError as error:
                raise ServerFailedError(CONFIG_ERROR, f"{listener}: {_reason(error)}") from error
            if not host:
                raise ServerFailedError(CONFIG_ERROR, f"{listener}: {_BEYOND}")
        sock = await listen((host, listener.port))
        self.links.listen(sock, None if self._tls is None else self._tls.policy)
        endpoint = self._config.link_endpoint
        return attrs.evolve(endpoint, port=endpoint.port or sock.getsockname()[1])

    def dial(self, broker_id: int, endpoint: Endpoint) -> None:
        """Begin to open a link; the links say what comes of it."""
        self._dials.send_nowait((broker_id, endpoint))

    async def run(self) -> None:
        """Dial, until cancelled."""
        async with trio.open_nursery() as nursery:
            if self._tls is not None:
                nursery.start_soon(reread_of(self._tls).run)
            async for broker_id, endpoint in self._dialled:
                nursery.start_soon(self._dial, broker_id, endpoint)

    async def _dial(self, broker_id: int, endpoint: Endpoint) -> None:
        address = Address(endpoint.host, endpoint.port)
        await dial_link(self.links, self._greeting, broker_id, address, DIAL_SECONDS)
        self._loop.wake()


_BEYOND: Final = (
    "brokers that are reached from other machines have to prove who they are: run `zab secret FILE`, copy FILE to all, "
    "and add the line `broker.secretFile=FILE`"
)


def _reason(error: OSError) -> str:
    return _BEYOND if isinstance(error, BeyondThisMachineError) else str(error)


def _take_over_nothing(sock: socket.socket, *_others: object) -> None:
    """No connection has another purpose."""
    sock.close()
