"""Backups in an object store, which needs the packages of the pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.cli.commands import Run, run
from tests.cli.operations.running_member import Running, running
from tests.operations.backup.growing_member import grow, member, whole
from tests.pipeline.rigs.object_store import Store, store
from zab.cli.operations.backup import _Member
from zab.operations.backup.stores import ObjectStore, open_store
from zab.operations.backup.taking import BackupError, prune, take
from zab.pipeline.places import open_place

__all__ = ["member", "run", "running", "store"]


def test_pruned_and_in_an_object_store(member: tuple[_Member, KazooClient], tmp_path: Path) -> None:
    """Through pyarrow, which serves a directory as it serves a bucket."""
    source, client = member
    store = ObjectStore(open_place(str(tmp_path / "bucket")))
    for now_ms in range(4):
        grow(client)
        take(store, source, now_ms, full=now_ms == 2)
    assert len(whole(store).backups) == 4
    taken = prune(store, 4, keep=2, keep_for_ms=None)
    assert taken.removed
    catalogue = whole(store)
    assert [each.time_ms for each in catalogue.backups] == [2, 3]
    with pytest.raises(BackupError):
        prune(open_store(str(tmp_path / "empty")), 0, keep=1, keep_for_ms=None)


@pytest.mark.slow
def test_in_an_object_store(running: Running, store: Store, tmp_path: Path, run: Run) -> None:
    place = store.uri("ensemble")
    running.client.create("/s3", b"value")
    assert run(*running.words("take", place)) == 0, run.err
    running.client.set("/s3", b"more")
    assert run(*running.words("take", place)) == 0, run.err
    assert run("backup", "verify", place) == 0, run.out
    assert "catalogue.json" in store.names("ensemble")
    assert run("restore", place, "--to", f"1={tmp_path / 'new'}") == 0, run.err
    assert run("backup", "prune", place, "--keep", "1") == 0
    running.client.delete("/s3")
