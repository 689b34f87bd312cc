"""Names for trio, as the standard library resolves them: so one patch of `socket.getaddrinfo` counts for every
backend."""

import socket
from typing import Any

import trio


class SystemResolver(trio.abc.HostnameResolver):
    """Names to addresses; never the other way."""

    async def getaddrinfo(self, host: Any, port: Any, *given: Any, **options: Any) -> Any:
        return socket.getaddrinfo(host, port, *given, **options)

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise AssertionError
