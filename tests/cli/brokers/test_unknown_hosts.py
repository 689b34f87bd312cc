"""Which hosts have no address."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from zab.cli.brokers.unknown_hosts import unknown_hosts

Patch = pytest.MonkeyPatch


def test_hosts_without_an_address_are_named_once(monkeypatch: Patch) -> None:
    def getaddrinfo(host: str, *_: Any) -> list[Any]:
        if host.startswith("none"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert unknown_hosts("none:1,some:1,none:2,[::1]:3,none2:1", 60) == (
        "none: Name or service not known; none2: Name or service not known"
    )
    assert unknown_hosts("some:1", 60) == ""


def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch: Patch) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: is_over.wait(60) and [])
    try:
        assert unknown_hosts("a:1,b:1", 0.05) == "a: no address within 0.05 s; b: no address within 0.05 s"
        assert not is_over.is_set()
    finally:
        is_over.set()
