"""Where a bookie listens, and what clients are told to connect to.

A bookie asks nobody for a login, and has no TLS unless its settings say so. So it listens on this machine alone, unless
its settings say what other machines are to connect to.
"""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
import sys
from typing import Final

from zab.bookie.settings import PlaceSettings
from zab.service.failure import CONFIG_ERROR, ServerFailedError

LOOPBACK: Final = "127.0.0.1"
_GET_ADDRESS: Final = 0x8915
"""SIOCGIFADDR of Linux."""


def listening_host(place: PlaceSettings) -> str:
    """The host to bind; empty: every address. Raises ServerFailedError."""
    if place.interface is not None:
        return _address_of(place.interface)
    advertised = place.advertised_address
    if advertised is None:
        return LOOPBACK
    return advertised if is_loopback(advertised) else ""


def advertised_host(place: PlaceSettings) -> str:
    """What clients connect to. Raises ServerFailedError."""
    return place.advertised_address or listening_host(place)


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches this host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _address_of(interface: str) -> str:
    """The IPv4 address of a network interface."""
    if sys.platform != "linux":
        raise ServerFailedError(CONFIG_ERROR, "listeningInterface: this system does not say its address")
    name = interface.encode()[:15].ljust(256, b"\0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            found = fcntl.ioctl(sock.fileno(), _GET_ADDRESS, struct.pack("256s", name))
        except OSError as error:
            known = ", ".join(each for _, each in socket.if_nameindex())
            raise ServerFailedError(
                CONFIG_ERROR, f"listeningInterface: {interface}: {error.strerror}; there are {known}"
            ) from error
    return socket.inet_ntoa(found[20:24])
