"""An ensemble as `zab ensemble` starts it, with admin servers, on free ports."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import trio

from zab.cli.servers.local_ensemble import OFFSETS, LocalEnsemble
from zab.testing.kit.ports import free_ports_in_a_row


@contextlib.contextmanager
def local_ensemble(directory: Path) -> Iterator[LocalEnsemble]:
    """Three members that serve, with their data in this directory."""
    ensemble = LocalEnsemble(3, directory, free_ports_in_a_row(3, OFFSETS))
    try:
        ensemble.start()
        assert trio.run(ensemble._wait_until_serving, ensemble.members) is None
        yield ensemble
    finally:
        ensemble.stop()
