"""A member that backups are taken of while it grows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.rigs.admin_servers import administered
from tests.rigs.kazoo_client import kazoo_client
from zab.cli.operations.backup import _Member
from zab.cli.progress import Told
from zab.operations.admin_client import AdminPort, admin_port
from zab.operations.backup.taking import catalogue_of
from zab.operations.backup.verifying import checked_files, fault_of, restored
from zab.operations.verdicts.catalogue import Catalogue

SUPER = "super:wire"


def source_at(port: AdminPort) -> _Member:
    return _Member(port, Told("read", "byte", is_shown=False))


@pytest.fixture(scope="module")
def member() -> Iterator[tuple[_Member, KazooClient]]:
    with administered(1) as found, kazoo_client(found.servers.hosts) as client:
        yield source_at(admin_port(f"127.0.0.1:{found.admin[1]}", authorization=SUPER)), client


def grow(client: KazooClient, count: int = 3) -> None:
    for _ in range(count):
        client.create("/n", os.urandom(500), sequence=True)


def whole(store: Any) -> Catalogue:
    """Every backup of the catalogue comes to the state that it was."""
    catalogue = catalogue_of(store)
    assert catalogue is not None
    assert list(checked_files(store, catalogue.files)) == []
    for backup in catalogue.backups:
        assert fault_of(restored(store, catalogue, backup), backup) is None
    return catalogue
