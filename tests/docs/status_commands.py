"""An ensemble whose status is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio

from zab.cli.servers.local_ensemble import ADMIN_OFFSET, LocalEnsemble
from zab.testing.kit.ports import free_ports_in_a_row


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEnsemble]:
    first = free_ports_in_a_row(3, span=ADMIN_OFFSET + 2)
    found = LocalEnsemble(3, tmp_path_factory.mktemp("ensemble"), first)
    try:
        found.start()
        assert trio.run(found._wait_until_serving) is None
        yield found
    finally:
        found.stop()


def told(text: str, ensemble: LocalEnsemble) -> str:
    """With the ports of this ensemble."""
    for at, member in enumerate(ensemble.members):
        text = text.replace(f":{2181 + at}", f":{member.client_port}").replace(f":{8081 + at}", f":{member.admin_port}")
    return text.replace("data/superuser", str(ensemble.superuser_path))
