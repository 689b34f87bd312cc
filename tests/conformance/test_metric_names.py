"""The names that the real ZooKeeper has in `mntr`: `tests/testdata/metrics/zookeeper.txt` is that list, of a leader
and of a follower with traffic. `pytest --rewrite` writes it again.

Not here: which of them this service has (`tests/docs/test_monitoring_page.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, zookeeper

pytestmark = pytest.mark.java

LIST = Path(__file__).parents[1] / "testdata" / "metrics" / "zookeeper.txt"
HEAD = """\
# The figures that mntr of ZooKeeper 3.9.5 has, on a leader or a follower, without zk_, with their kinds:
#   value      one number or word
#   basic      avg_, min_, max_, cnt_ and sum_ of it
#   advanced   quantiles besides: p50_, p95_, p99_, p999_
# A name with KEY is one of a set: the id of a learner, or the first part of a path.
# Made by tests/conformance/test_metric_names.py.
"""
PARTS = ("avg", "min", "max", "cnt", "sum", "p50", "p95", "p99", "p999")
SETS = ((r".*_((?:read|write)_per_namespace)", r"KEY_\1"), (r"\d+_(learner_handler_qp_\w+)", r"KEY_\1"))


@pytest.fixture(scope="module")
def theirs() -> Iterator[ZooKeeperEnsemble]:
    with zookeeper(3) as servers:
        for member in (servers.leader(), servers.followers()[0]):
            with kazoo_client(member.host) as client:
                client.create("/a", b"x", makepath=True) if not client.exists("/a") else client.set("/a", b"y")
                client.get("/a", watch=lambda _event: None)
                client.transaction().commit()
                client.sync("/a")
        yield servers


def kinds(names: Iterable[str]) -> dict[str, str]:
    """The names in `mntr`, with those of one summary together."""
    parts: dict[str, set[str]] = {}
    for name in names:
        prefix, _, rest = name.partition("_")
        if prefix in PARTS:
            for pattern, replacement in SETS:
                rest = re.sub(f"^{pattern}$", replacement, rest)
            parts.setdefault(rest, set()).add(prefix)
    whole = {name for name, found in parts.items() if "cnt" in found}
    found = {name: "advanced" if "p50" in parts[name] else "basic" for name in whole}
    for name in names:
        prefix, _, rest = name.partition("_")
        is_part = prefix in PARTS and any(re.fullmatch(each.replace("KEY", ".*"), rest) for each in whole)
        if not is_part:
            found[name] = "value"
    return found


def test_the_list_is_that_of_the_real_one(theirs: ZooKeeperEnsemble, request: pytest.FixtureRequest) -> None:
    said = [member.word("mntr") for member in (theirs.leader(), theirs.followers()[0])]
    names = {line.partition("\t")[0].removeprefix("zk_") for text in said for line in text.splitlines()}
    text = HEAD + "".join(f"{name} {kind}\n" for name, kind in sorted(kinds(names).items()))
    if request.config.getoption("--rewrite"):
        LIST.write_text(text, encoding="utf-8")
    assert LIST.read_text(encoding="utf-8") == text
