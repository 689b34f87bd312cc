"""A port that answers HTTP.

Not here: what is asked there.
"""

from __future__ import annotations

import re

from attrs import frozen

from zab.configuration.fields import BOOLEAN, COUNT, INT_MAX, host_name, integer, setting


def _path(text: str) -> str:
    if not text.startswith("/") or text.endswith("/") or not text.isascii() or any(each in text for each in " ?#%{}"):
        raise ValueError(f"{text!r} is not a path that begins with / and does not end with it")
    return text


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower().removesuffix(".") for name in text.split(","))
    if not all(re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", name) for name in names):
        raise ValueError(f"{text!r} is not a list of names without ports, separated by commas")
    return names


@frozen(kw_only=True)
class HttpSettings:
    """Where the port is, and who may use it."""

    enabled: bool = setting(
        "enableServer",
        True,
        BOOLEAN,
        "true/false",
        "Whether there is an admin server: commands over HTTP. A port that is in use is a warning.",
    )
    address: str = setting(
        "serverAddress",
        "127.0.0.1",
        host_name,
        "host",
        "The address to listen on: by default this machine alone, since many commands authenticate nobody. "
        "ZooKeeper's is 0.0.0.0.",
    )
    host_names: tuple[str, ...] = setting(
        "hostNames",
        (),
        _names,
        "names",
        "zab only. Names accepted in the Host header, beside addresses, `localhost`, and the names of the "
        "server lines, of the machine and of `admin.serverAddress`.",
        shown="none",
    )
    port: int = setting("serverPort", 8080, integer(0, 65535), "port", "The port. 0: none.")
    idle_timeout_ms: int = setting("idleTimeout", 30_000, COUNT, "ms", "How long a connection may be idle.")
    command_url: str = setting("commandURL", "/commands", _path, "path", "The path before the name of a command.")
    max_connections: int = setting(
        "maxConnections",
        32,
        integer(1, INT_MAX),
        "connections",
        "zab only. How many connections each of the two HTTP ports has. More are closed.",
    )
    port_unification: bool = setting(
        "portUnification", False, BOOLEAN, "true/false", "true: the port also accepts HTTPS."
    )
    force_https: bool = setting("forceHttps", False, BOOLEAN, "true/false", "true: the port accepts only HTTPS.")
    needs_client_auth: bool = setting(
        "needClientAuth", False, BOOLEAN, "true/false", "true: HTTPS clients must show a certificate."
    )

    @property
    def has_tls(self) -> bool:
        """Whether the port takes HTTPS."""
        return self.enabled and (self.force_https or self.port_unification)
