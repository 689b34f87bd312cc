"""Data directories that earlier versions have written, under this one: nothing is lost, and the way back is open.

tests/testdata/upgrade/VERSION/KIND/N           the directory of member N, as a crash left it; without the log file that
                                                was made ready and not begun (`log.spare`)
tests/testdata/upgrade/VERSION/KIND/expected.json   what a client read there last, and a session that goes on

before-secrets      commit 6e60f6f: the version before members proved who they are, and before session keys had a file
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datatree.log.epochs import DIRECTORY
from datatree.log.segment import SEGMENT_HEADER_BYTES
from datatree.snapshot import HEADER_BYTES
from tests.hostile.raw import Client
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.zab_server import unstarted
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.host.files.secret_file import make_secret_file

pytestmark = [pytest.mark.slow, pytest.mark.process]

KEPT = Path(__file__).parents[1] / "testdata" / "upgrade"
VERSIONS = sorted(path.name for path in KEPT.iterdir())
KINDS = {"standalone": 1, "ensemble": 3}
VERSION_AT = slice(4, 8)
"""Behind the magic of a log file or a snapshot."""
SINCE = {"sessionKeys", "reserve"}
"""Files that the versions before did not know."""


def expected(version: str, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((KEPT / version / kind / "expected.json").read_text())
    return found


@contextlib.contextmanager
def upgraded(directory: Path, version: str, kind: str, *lines: str) -> Iterator[ZooKeeperEnsemble]:
    """Members of this version in directories of that one, serving."""
    with unstarted(directory, KINDS[kind], "snapCount=30", *lines) as ensemble:
        for member in ensemble.members:
            kept = KEPT / version / kind / str(member.server_id) / DIRECTORY
            shutil.copytree(kept, member.directory / DIRECTORY)
            member.start()
        ensemble.wait()
        yield ensemble


def secure(directory: Path) -> str:
    make_secret_file(str(directory / "secret"))
    return f"quorum.secretFile={directory / 'secret'}"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("kind", "is_secure"),
    [("standalone", False), ("ensemble", False), ("ensemble", True)],
    ids=["standalone", "ensemble", "ensemble with a secret"],
)
def test_nothing_is_lost(tmp_path: Path, version: str, kind: str, is_secure: bool) -> None:
    """Znodes, their stats, their ACLs, and sessions with their ephemerals; the session is taken up with the password
    that the version before gave it."""
    known = expected(version, kind)
    with upgraded(tmp_path, version, kind, *([secure(tmp_path)] if is_secure else [])) as ensemble:
        with kazoo_client(ensemble.hosts, timeout=40.0) as client:
            client.add_auth("digest", "alice:pw")
            found = {path: client.get(path) for path in known["znodes"]}
            assert {
                path: [data.decode() if data else "", *stat] for path, (data, stat) in found.items() if path != "/"
            } == {path: row for path, row in known["znodes"].items() if path != "/"}
            assert set(client.get_children("/")) == {path[1:] for path in known["znodes"] if path.count("/") == 1} - {
                ""
            } | {"zookeeper"}
        for member in ensemble.members:
            anonymous = Client(member.client_port)
            assert anonymous.get_data("/closed")[0] == -102
            anonymous.close()
        session, password = known["session"], bytes.fromhex(known["password"])
        for member in ensemble.members:
            guest = Client(member.client_port, session, bytes(16))
            assert guest.given.session_id == 0
            guest.close()
            owner = Client(member.client_port, session, password)
            assert owner.given.session_id == session
            assert owner.set_data("/mine", b"still") == 0
            owner.close()
        for member in ensemble.members:
            assert (member.directory / DIRECTORY / "sessionKeys").exists() == (is_secure or kind == "standalone")


def formats(directory: Path) -> dict[str, set[bytes]]:
    """Kind of file to the versions in the heads of its files; small files have their number of lines and words."""
    found: dict[str, set[bytes]] = {}
    for path in directory.iterdir():
        kind = path.name.partition(".")[0] + (".index" if path.name.endswith(".index") else "")
        if path.name.endswith(".spare"):
            continue
        data = path.read_bytes()
        if kind in ("log", "snapshot", "log.index"):
            assert len(data) >= min(SEGMENT_HEADER_BYTES, HEADER_BYTES)
            found.setdefault(kind, set()).add(data[:4] + data[VERSION_AT])
        elif kind == "committed":
            found.setdefault(kind, set()).add(b"%d" % len(data))
        else:
            found.setdefault(kind, set()).add(b"%d %d" % (data.count(b"\n"), data.count(b" ")))
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_version_before_can_read_what_this_one_writes(tmp_path: Path, version: str, kind: str) -> None:
    """All files but the new one have their former format: taking the version before again takes no
    conversion."""
    with upgraded(tmp_path, version, kind, *([secure(tmp_path)] if kind == "ensemble" else [])) as ensemble:
        client = Client(ensemble.members[0].client_port)
        for number in range(100):
            client.create(f"/after{number}")
        client.close()
        for member in ensemble.members:
            member.stop()
        for member in ensemble.members:
            before = formats(KEPT / version / kind / str(member.server_id) / DIRECTORY)
            after = formats(member.directory / DIRECTORY)
            assert set(after) - set(before) <= SINCE | {"snapshot", "log.index", "lock"}
            for name in set(after) & set(before):
                assert after[name] == before[name], name
