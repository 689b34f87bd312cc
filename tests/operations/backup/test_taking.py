"""Backups of a running member: exact, in parts, whole after a crash at any step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl

from datatree.snapshot import HEADER_BYTES, parse_snapshot_header
from tests.operations.backup.growing_member import grow, member, source_at, whole
from zab.cli.operations.backup import _Member
from zab.operations.admin_client import AdminError
from zab.operations.backup import taking
from zab.operations.backup.stores import LocalStore, StoreUnusableError
from zab.operations.backup.taking import BackupError, LogPage, LogTooYoungError, catalogue_of, take
from zab.operations.backup.verifying import checked_files, fault_of, restored
from zab.operations.verdicts.catalogue import CATALOGUE

__all__ = ["member"]


def test_the_first_is_a_snapshot_and_the_next_only_what_has_happened_since(
    member: tuple[_Member, KazooClient], tmp_path: Path
) -> None:
    source, client = member
    store = LocalStore(tmp_path)
    grow(client)
    first = take(store, source, 1)
    assert first.backup is not None
    assert first.new_files[0].is_snapshot or first.new_files[-1].is_snapshot
    assert take(store, source, 2).backup is None, "nothing has happened"
    grow(client)
    zxid = client.create("/marked", b"it", include_data=True)[1].czxid
    second = take(store, source, 3)
    assert second.backup is not None
    assert second.backup.zxid >= zxid
    assert [each.is_snapshot for each in second.new_files] == [False]
    catalogue = whole(store)
    assert [each.time_ms for each in catalogue.backups] == [1, 3]
    found = restored(store, catalogue, second.backup).tree
    assert found.data_of(b"/marked", found.get(b"/marked")) == b"it"  # type: ignore[arg-type]
    assert found.znode_count == second.backup.znode_count
    client.delete("/marked")


def test_a_new_snapshot_when_it_is_asked_for_and_when_the_last_is_old(
    member: tuple[_Member, KazooClient], tmp_path: Path
) -> None:
    source, client = member
    store = LocalStore(tmp_path)
    take(store, source, 0)
    kinds = []
    for now_ms, full in ((5, False), (6, True), (15, False), (16, False)):
        grow(client)
        taken = take(store, source, now_ms, full=full, full_every_ms=10)
        kinds.append(any(each.is_snapshot for each in taken.new_files))
    assert kinds == [False, True, False, True]
    whole(store)


def test_the_log_is_cut_into_files_and_pages(
    member: tuple[_Member, KazooClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, client = member
    store = LocalStore(tmp_path)
    take(store, source, 0)
    monkeypatch.setattr(taking, "FILE_BYTES", 3000)
    grow(client, 20)

    class Paged(Wrapped):
        def log(self, after: int) -> LogPage:
            """One batch a page."""
            page = self.source.log(after)
            return attrs.evolve(page, raw=page.raw[: len(taking.parse(page.raw).raw)] if page.raw else b"")

    taken = take(store, Paged(source), 1)
    assert len(taken.new_files) > 2
    whole(store)


class Wrapped:
    """A member that is not quite itself."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.name = "wrapped"

    def snapshot(self, path: str) -> int:
        return self.source.snapshot(path)  # type: ignore[no-any-return]

    def log(self, after: int) -> LogPage:
        return self.source.log(after)  # type: ignore[no-any-return]


class Failing(LocalStore):
    """It crashes in the place of its change number `left`, or right after it."""

    def __init__(self, root: Path, left: int, *, after: bool) -> None:
        super().__init__(root)
        self.left = left
        self._after = after

    def _change(self, act: Callable[..., None], *arguments: Any) -> None:
        self.left -= 1
        if self.left == 0 and not self._after:
            raise KeyboardInterrupt
        act(*arguments)
        if self.left == 0:
            raise KeyboardInterrupt

    def put(self, name: str, data: bytes) -> None:
        self._change(super().put, name, data)

    def put_file(self, name: str, path: str) -> None:
        self._change(super().put_file, name, path)

    def remove(self, name: str) -> None:
        self._change(super().remove, name)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.long
def test_a_crash_at_any_step_leaves_a_catalogue_that_is_whole(
    member: tuple[_Member, KazooClient], tmp_path: Path, *, after: bool
) -> None:
    source, client = member
    for begun in (False, True):
        for left in range(1, 50):
            root = tmp_path / f"{begun}{left}"
            store = LocalStore(root)
            if begun:
                for now_ms in (0, 1):
                    grow(client)
                    take(store, source, now_ms, full=True)
            grow(client)
            before = catalogue_of(store)
            failing = Failing(root, left, after=after)
            try:
                take(failing, source, 2, full=True, keep=1)
            except KeyboardInterrupt:
                found = catalogue_of(store)
                if found is not None:
                    whole(store)
                assert before is None or found is not None
            # It goes on as if nothing had been.
            grow(client)
            assert take(store, source, 3, keep=1).backup is not None
            catalogue = whole(store)
            assert len(catalogue.backups) == 1
            assert set(store.names()) == {CATALOGUE, "version-1/committed", *(each.name for each in catalogue.files)}
            if failing.left > 0:
                break
        assert 4 <= left < 49


def test_what_was_half_written_is_not_there(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with store.held():
        store.put("version-1/x", b"1")
        with pytest.raises(FileNotFoundError):
            store.put_file("version-1/x", str(tmp_path / "no"))
        assert store.read("version-1/x") == b"1"
        assert store.names() == ["version-1/x"]
        assert (tmp_path / "version-1" / "x.tmp").exists()
        with pytest.raises(StoreUnusableError, match="another backup"), store.held():
            pass
    with store.held():
        assert not (tmp_path / "version-1" / "x.tmp").exists()


def test_damage_is_found(member: tuple[_Member, KazooClient], tmp_path: Path) -> None:
    source, client = member
    store = LocalStore(tmp_path)
    take(store, source, 0)
    grow(client)
    take(store, source, 1)
    catalogue = whole(store)
    for file in catalogue.files:
        path = tmp_path / file.name
        data = path.read_bytes()
        for wrong in (data[:-1], data + b"\0", data[:100] + bytes([data[100] ^ 1]) + data[101:], None):
            path.unlink()
            if wrong is not None:
                path.write_bytes(wrong)
            assert [fault.name for fault in checked_files(store, catalogue.files)] == [file.name]
            path.write_bytes(data)
    wrong_digest = attrs.evolve(catalogue.backups[-1], digest=catalogue.backups[-1].digest ^ 1)
    fault = fault_of(restored(store, catalogue, wrong_digest), wrong_digest)
    assert fault is not None
    assert "digest" in fault.reason


def test_what_does_not_come_to_the_members_state_is_no_backup(
    member: tuple[_Member, KazooClient], tmp_path: Path
) -> None:
    source, _ = member

    class Wrong(Wrapped):
        def log(self, after: int) -> LogPage:
            return attrs.evolve(self.source.log(after), digest=1)

    store = LocalStore(tmp_path)
    with pytest.raises(BackupError, match="digest"):
        take(store, Wrong(source), 0)
    assert catalogue_of(store) is None
    assert take(store, Wrong(source), 0, verified=False).backup is not None


def test_another_history_is_refused(member: tuple[_Member, KazooClient], tmp_path: Path) -> None:
    source, client = member

    class Elsewhere(Wrapped):
        def log(self, after: int) -> LogPage:
            return attrs.evolve(self.source.log(after), lineage=bytes(16))

    class OtherChain(Wrapped):
        def log(self, after: int) -> LogPage:
            page = self.source.log(after)
            return attrs.evolve(page, previous=(page.previous[0], bytes(16)))

    class Garbled(Wrapped):
        def log(self, after: int) -> LogPage:
            page = self.source.log(after)
            return attrs.evolve(page, raw=page.raw[:90] + b"?" + page.raw[91:])

    store = LocalStore(tmp_path)
    take(store, source, 0)
    grow(client)
    before = catalogue_of(store)
    for wrong, said in ((Elsewhere, "restored"), (OtherChain, "another history"), (Garbled, "cannot be read")):
        with pytest.raises(BackupError, match=said):
            take(store, wrong(source), 1)
        assert catalogue_of(store) == before


def test_a_log_that_begins_later_leaves_a_gap_that_is_said(member: tuple[_Member, KazooClient], tmp_path: Path) -> None:
    source, client = member
    store = LocalStore(tmp_path)
    first = take(store, source, 0)
    grow(client)
    end = first.catalogue.end

    class Young(Wrapped):
        def log(self, after: int) -> LogPage:
            if after == end:
                raise LogTooYoungError
            return self.source.log(after)  # type: ignore[no-any-return]

    taken = take(store, Young(source), 1)
    assert taken.has_gap
    catalogue = whole(store)
    assert len(catalogue.backups) == 2


def test_nothing_of_another_history_is_written_beside_the_backups(
    member: tuple[_Member, KazooClient], tmp_path: Path
) -> None:
    """The log of an ensemble that was restored begins later, too: a snapshot comes first."""
    source, client = member
    store = LocalStore(tmp_path)
    before = take(store, source, 0).catalogue
    grow(client)
    files = sorted(tmp_path.rglob("*"))

    class Restored(Wrapped):
        def snapshot(self, path: str) -> int:
            zxid = self.source.snapshot(path)
            data = bytearray(Path(path).read_bytes())
            header = parse_snapshot_header(bytes(data[:HEADER_BYTES]), path)
            data[:HEADER_BYTES] = attrs.evolve(header, lineage=bytes(16)).pack()
            Path(path).write_bytes(data)
            return zxid

        def log(self, after: int) -> LogPage:
            raise LogTooYoungError

    with pytest.raises(BackupError, match="name another directory"):
        take(store, Restored(source), 1)
    assert sorted(tmp_path.rglob("*")) == files
    assert catalogue_of(store) == before


def test_no_snapshot_is_asked_for_where_the_history_is_known_to_be_another(
    member: tuple[_Member, KazooClient], tmp_path: Path
) -> None:
    """A member gives one in some minutes: it is for the directory that it fits."""
    source, _ = member
    store = LocalStore(tmp_path)
    before = take(store, source, 0).catalogue

    class Young(Wrapped):
        def snapshot(self, path: str) -> int:
            raise AssertionError

        def log(self, after: int) -> LogPage:
            raise LogTooYoungError("it begins later", "00" * 16)

    with pytest.raises(BackupError, match="name another directory"):
        take(store, Young(source), 1)
    assert catalogue_of(store) == before


@pytest.mark.parametrize("sent", [b"", b"{}" * 100], ids=["nothing", "else"])
def test_what_is_no_snapshot_is_no_backup(member: tuple[_Member, KazooClient], tmp_path: Path, sent: bytes) -> None:
    class Other(Wrapped):
        def snapshot(self, path: str) -> int:
            Path(path).write_bytes(sent)
            return 1

    with pytest.raises(BackupError, match="no snapshot"):
        take(LocalStore(tmp_path), Other(member[0]), 1)
    assert catalogue_of(LocalStore(tmp_path)) is None


def test_who_may_have_the_log(member: tuple[_Member, KazooClient], tmp_path: Path) -> None:
    source, client = member
    end = take(LocalStore(tmp_path), source, 0).catalogue.end
    grow(client)
    page = source.log(end)
    assert page.previous[0] == end
    assert page.raw
    assert source.log(page.applied).raw == b""
    with pytest.raises(AdminError) as refused:
        source_at(attrs.evolve(source.port, authorization=None)).log(end)
    assert refused.value.status == 401
    with pytest.raises(AdminError) as refused:
        source.log(1 << 62)
    assert refused.value.status == 409
    with pytest.raises(AdminError) as refused:
        source.port.read("log", 60, after="x")
    assert refused.value.status == 400
    client.set_acls("/", [make_digest_acl("all", "of", all=True)])
    try:
        with pytest.raises(AdminError) as refused:
            source_at(attrs.evolve(source.port, authorization="some:of")).log(end)
        assert refused.value.status == 403
        assert source_at(attrs.evolve(source.port, authorization="all:of")).log(end).raw
    finally:
        client.add_auth("digest", "all:of")
        client.set_acls("/", [make_acl("world", "anyone", all=True)])
