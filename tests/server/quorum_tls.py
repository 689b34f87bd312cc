"""Ensembles whose members are reached by hosts of their own, 127.0.0.1 and on, as certificates tell them apart."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.rigs.certificates import Certificates, quorum_store_lines
from tests.rigs.zab_server import unstarted
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember

COUNT = 3
HOSTS = [f"127.0.0.{number}" for number in range(1, COUNT + 1)]


@contextlib.contextmanager
def members_on_hosts(directory: Path, *lines: str) -> Iterator[ZooKeeperEnsemble]:
    """Not started yet."""
    with unstarted(directory, COUNT, *lines) as ensemble:
        for member in ensemble.members:
            text = member.config.read_text()
            for number, host in enumerate(HOSTS, 1):
                text = text.replace(f"server.{number}=127.0.0.1:", f"server.{number}={host}:")
            member.config.write_text(text)
        yield ensemble


def make_certificates(directory: Path) -> Certificates:
    """One for each host, in `directory/127.0.0.N`."""
    certificates = Certificates(directory)
    for host in HOSTS:
        certificates.member(host)
    return certificates


def store_lines(directory: Path, kind: str = "pem") -> list[str]:
    """The settings of a member with this directory."""
    return [f"{key}={value}" for key, value in quorum_store_lines(directory, kind).items()]


def give(ensemble: ZooKeeperEnsemble, directory: Path, *lines: str) -> None:
    """Each member its stores out of `directory/127.0.0.N`, and these lines."""
    for member, host in zip(ensemble.members, HOSTS, strict=True):
        add(member, *store_lines(directory / host), *lines)


def add(member: ZooKeeperMember, *lines: str) -> None:
    """At the end of its file."""
    member.config.write_text(member.config.read_text() + "".join(f"{line}\n" for line in lines))


def start(ensemble: ZooKeeperEnsemble) -> None:
    for member in ensemble.members:
        member.start()
    ensemble.wait()
