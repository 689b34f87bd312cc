"""The audit log of the real ZooKeeper, and ours, for the same requests."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.exceptions import KazooException
from kazoo.security import ACL, Id

from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember, zookeeper

pytestmark = pytest.mark.java

KEYS = {"audit.enable": "true"}
ACLS = [ACL(perms=3, id=Id("ip", "127.0.0.1"))]


def hold(ensemble: ZooKeeperEnsemble) -> None:
    """What both are asked, by one client."""
    with kazoo_client(ensemble.hosts) as client:
        client.add_auth("digest", "alice:secret")
        client.create("/a")
        client.create("/s", sequence=True)
        client.create("/e", ephemeral=True)
        client.set("/a", b"1")
        client.set_acls("/a", ACLS)
        refused: list[Callable[[], object]] = [
            lambda: client.delete("/no"),
            lambda: client.create("/no/where", sequence=True, ephemeral=True),
            lambda: client.set("/no", b""),
            lambda: client.set_acls("/no", ACLS),
            lambda: client.reconfig(None, None, "server.1=a:1:2"),
        ]
        for each in refused:
            with contextlib.suppress(KazooException):
                each()
        transaction = client.transaction()
        transaction.create("/t")
        transaction.check("/t", -1)
        transaction.set_data("/t", b"2")
        transaction.delete("/t")
        transaction.commit()
        transaction = client.transaction()
        transaction.create("/t")
        transaction.delete("/no")
        transaction.commit()
        client.delete("/a")


def seen(text: str) -> list[dict[str, str]]:
    """The lines of clients and of sessions: what does not differ from run to run."""
    found = []
    for line in text.splitlines():
        head, session, said = line.partition("session=")
        if not session:
            continue
        pairs = dict(pair.split("=", 1) for pair in f"{session}{said}".split("\t"))
        assert int(pairs.pop("session"), 16)
        if pairs["operation"] == "multiOperation":
            # Ours says which znode was at fault.
            assert pairs.pop("znode", "/no") == "/no"
        # Ours says by which scheme each was proven.
        names = (re.sub(r"^(ip|digest|sasl|x509):", "", user) for user in pairs["user"].split(","))
        pairs["user"] = ",".join(sorted(names))
        found.append({"level": "ERROR" if " ERROR " in head else "INFO", **pairs})
    return found


def text_of_ours(member: ZooKeeperMember) -> str:
    return Path(member.data_directory, "audit.log").read_text(encoding="utf-8")


def test_same_requests_leave_the_same_lines() -> None:
    with zookeeper(properties=KEYS) as ensemble:
        hold(ensemble)
        [member] = ensemble.members
        member.stop()
        theirs = seen(member.log_text())
    assert len(theirs) == 16, "as many as there are in hold"
    with zab_servers(1, configuration=KEYS) as ensemble:
        hold(ensemble)
        [member] = ensemble.members
        member.stop()
        ours = seen(text_of_ours(member))
    assert ours == theirs
