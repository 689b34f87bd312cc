"""An ensemble whose status is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rigs.local_ensemble import local_ensemble
from zab.cli.servers.local_ensemble import LocalEnsemble


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEnsemble]:
    with local_ensemble(tmp_path_factory.mktemp("ensemble")) as found:
        yield found


def told(text: str, ensemble: LocalEnsemble) -> str:
    """With the ports of this ensemble."""
    for at, member in enumerate(ensemble.members):
        text = text.replace(f":{2181 + at}", f":{member.client_port}").replace(f":{8081 + at}", f":{member.admin_port}")
    return text.replace("data/superuser", str(ensemble.superuser_path))
