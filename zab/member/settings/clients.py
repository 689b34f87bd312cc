"""How clients connect: ports, and what a client shows over TLS.

Not here: the stores for TLS (`zab.configuration.blocks.tls`).
"""

from __future__ import annotations

from attrs import frozen

from zab.configuration.blocks.tls import versions_of_tls
from zab.configuration.dynamic import CLIENT_HOST_DEFAULT
from zab.configuration.fields import BOOLEAN, COUNT, INT_MAX, choice, host_name, integer, setting


def _port_or_none(text: str) -> int | None:
    """0 or less is ZooKeeper's way to say that there is none."""
    port = integer(-1, 65535)(text)
    assert isinstance(port, int)
    return port if port > 0 else None


def _version_of_tls(text: str) -> str:
    [name, *others] = versions_of_tls(text)
    if others:
        raise ValueError(f"{text!r} has more than one protocol: ssl.enabledProtocols takes several")
    return name


@frozen(kw_only=True)
class ClientSettings:
    """The addresses of the client ports, and TLS on them."""

    port: int | None = setting(
        "clientPort",
        None,
        integer(0, 65535),
        "port",
        "Where clients connect. 0 or none: the client part of the server line.",
    )
    address: str = setting(
        "clientPortAddress",
        CLIENT_HOST_DEFAULT,
        host_name,
        "host",
        "The address to listen on. By default all addresses, as in ZooKeeper.",
    )
    backlog_count: int = setting(
        "clientPortListenBacklog",
        -1,
        integer(-1, INT_MAX),
        "connections",
        "The backlog of the listener. -1: the system's default.",
    )
    tcp_keep_alive: bool = setting(
        "clientTcpKeepAlive",
        False,
        BOOLEAN,
        "true/false",
        "Whether TCP probes idle connections. Sessions have pings of their own.",
    )
    secure_port: int | None = setting(
        "secureClientPort", None, _port_or_none, "port", "Where clients connect over TLS. 0 or none: nowhere."
    )
    secure_address: str = setting(
        "secureClientPortAddress",
        CLIENT_HOST_DEFAULT,
        host_name,
        "host",
        "The address to listen on for TLS. By default all addresses.",
    )
    port_unification: bool = setting(
        "client.portUnification",
        False,
        BOOLEAN,
        "true/false",
        "true: clientPort also accepts TLS, while clients change over one by one.",
    )
    certificates: str = setting(
        "ssl.clientAuth",
        "need",
        choice(need="need", want="want", none="none"),
        "need/want/none",
        "need: every client must show a certificate. want: a certificate that is shown must be valid. none: "
        "no certificate is asked for.",
    )
    tls_protocol: str | None = setting(
        "ssl.protocol",
        None,
        _version_of_tls,
        "version",
        "The only version, unless ssl.enabledProtocols names some.",
        shown="TLSv1.2, TLSv1.3",
    )
    outstanding_handshake_limit_count: int = setting(
        "netty.server.outstandingHandshake.limit",
        250,
        COUNT,
        "connections",
        "How many connections may be in their TLS handshake. One more replaces the oldest. At most half of "
        "the clients' descriptors.",
    )

    @property
    def has_tls(self) -> bool:
        return self.secure_port is not None or self.port_unification

    @property
    def offers_x509(self) -> bool:
        """Whether clients can prove who they are by a certificate."""
        return self.has_tls and self.certificates != "none"
