"""Which hosts of --bootstrap-server have no address: clients do not say so."""

from __future__ import annotations

import socket
import threading
import time

__all__ = ["unknown_hosts"]


def unknown_hosts(bootstrap: str, seconds: float) -> str:
    """The hosts without an address, and why; empty if all have one. They are looked up at the same time, and no longer
    than this: a resolver may take minutes."""
    hosts = list(dict.fromkeys(each.rpartition(":")[0].strip("[]") for each in bootstrap.split(",")))
    found: dict[str, str] = {}

    def look_up(host: str) -> None:
        try:
            socket.getaddrinfo(host, None)
            found[host] = ""
        except (OSError, UnicodeError) as error:
            found[host] = str(getattr(error, "strerror", None) or error)

    threads = [threading.Thread(target=look_up, args=(host,), daemon=True) for host in hosts]
    for each in threads:
        each.start()
    until = time.monotonic() + seconds
    for each in threads:
        each.join(max(0.0, until - time.monotonic()))
    said = {host: found.get(host, f"no address within {seconds:g} s") for host in hosts}
    return "; ".join(f"{host}: {reason}" for host, reason in said.items() if reason)
