"""Histories written by hand, as the rows that `read_log` would give.

    history = History()
    history.open(A, timeout=4000)                       at second 0
    lock = history.create(A, "/lock/n_", ephemeral=True, sequential=True)
    history.wait(1.5)                                   everything that follows is 1.5 s later
    with history.multi(A):                              what is in the block is one transaction
        history.set(A, "/x", b"2")
        history.delete(A, "/y")
    history.expire(A)
    frame = history.frame(spark)

It keeps what a tree would: versions, counters of children, the ephemerals of sessions. `created` has a path for every
row of a create, so a test can say what it expects without counting zxids: `history.zxid` is that of the last one.
"""

from __future__ import annotations

import contextlib
import datetime
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from zab.pipeline.schema import LOG, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START: Final = datetime.datetime(2026, 3, 1, 12, 0, 0, tzinfo=datetime.UTC)
OPEN_ACL: Final = "world:anyone:cdrwa"
CONTAINER: Final = -(1 << 63)

_TYPES: Final = {
    "create": 1,
    "delete": 2,
    "setData": 5,
    "setACL": 7,
    "check": 13,
    "multi": 14,
    "create2": 15,
    "createContainer": 19,
    "deleteContainer": 20,
    "createTTL": 21,
    "createSession": -10,
    "closeSession": -11,
    "error": -1,
}


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def moment(seconds: float) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


class History:
    """`rows` are those of LOG; `seconds` is now, since START."""

    def __init__(self, ensemble: str = "e1", *, epoch: int = 1) -> None:
        self.ensemble = ensemble
        self.rows: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.zxid = epoch << 32
        self.versions: dict[str, int] = {}
        self.acl_versions: dict[str, int] = {}
        self.counters: dict[str, int] = {}
        self.ephemerals: dict[int, list[str]] = {}
        self._cxids: dict[int, int] = {}
        self._parts: int | None = None

    def wait(self, seconds: float) -> None:
        self.seconds = round(self.seconds + seconds, 3)

    def at(self, seconds: float) -> None:
        self.seconds = seconds

    def new_epoch(self) -> None:
        self.zxid = ((self.zxid >> 32) + 1) << 32

    def _row(self, session: int, operation: str, *, cxid: int | None = None, **values: Any) -> None:
        if self._parts is None:
            self.zxid += 1
            self._cxids[session] = self._cxids.get(session, -1) + 1
        row: dict[str, Any] = dict.fromkeys(column.name for column in LOG)
        row |= {
            "ensemble": self.ensemble,
            "member": "1",
            "segment": "log.1",
            "position": 64 + 100 * len(self.rows),
            "zxid": self.zxid,
            "epoch": self.zxid >> 32,
            "counter": self.zxid & 0xFFFFFFFF,
            "time": moment(self.seconds),
            "session": session,
            "cxid": self._cxids[session] if cxid is None else cxid,
            "type": _TYPES[operation],
            "operation": operation,
            "part": self._parts,
            "error": 0,
            "checksum": 0,
        }
        self.rows.append(row | values)
        if self._parts is not None:
            self._parts += 1

    def open(self, session: int, *, timeout: int = 10_000) -> None:
        self.ephemerals[session] = []
        self._row(session, "createSession", timeout=timeout, cxid=0)

    def close(self, session: int, *, cxid: int | None = None, bare: bool = False) -> None:
        """bare: as ZooKeeper before 3.6 wrote it, without the paths."""
        paths = self.ephemerals.pop(session, [])
        self._row(session, "closeSession", paths=None if bare else paths, cxid=cxid)
        for path in paths:
            del self.versions[path]

    def expire(self, session: int, *, bare: bool = False) -> None:
        self.close(session, cxid=0, bare=bare)

    def create(
        self,
        session: int,
        path: str,
        data: bytes | None = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        owner: int = 0,
        operation: str = "create",
        acl: str = OPEN_ACL,
    ) -> str:
        """The path that it got."""
        parent = parent_of(path)
        count = self.counters.get(parent, 0)
        self.counters[parent] = count + 1
        if sequential:
            path = f"{path}{count:010d}"
        assert path not in self.versions, f"{path} exists"
        self.versions[path] = 0
        self.acl_versions[path] = 0
        if ephemeral:
            self.ephemerals.setdefault(session, []).append(path)
            owner = session
        self._row(session, operation, path=path, data=data, version=count + 1, acl=acl, owner=owner)
        return path

    def set(self, session: int, path: str, data: bytes | None) -> None:
        self.versions[path] += 1
        self._row(session, "setData", path=path, data=data, version=self.versions[path])

    def set_acl(self, session: int, path: str, acl: str) -> None:
        self.acl_versions[path] += 1
        self._row(session, "setACL", path=path, acl=acl, version=self.acl_versions[path])

    def delete(self, session: int, path: str, *, operation: str = "delete") -> None:
        del self.versions[path]
        self.counters.pop(path, None)
        for paths in self.ephemerals.values():
            if path in paths:
                paths.remove(path)
        self._row(session, operation, path=path)

    def check(self, session: int, path: str) -> None:
        self._row(session, "check", path=path, version=self.versions[path])

    def refuse(self, session: int, path: str | None, error: int) -> None:
        self._row(session, "error", path=path, error=error)

    @contextlib.contextmanager
    def multi(self, session: int) -> Iterator[None]:
        self.zxid += 1
        self._cxids[session] = self._cxids.get(session, -1) + 1
        self._parts = 0
        yield
        self._parts = None

    def table(self) -> pa.Table:
        return log_table(self.rows)

    def frame(self, spark: SparkSession) -> DataFrame:
        return log_frame(spark, self.rows)


def columns(frame: DataFrame) -> list[tuple[str, str]]:
    """Names and Spark's types, as the tables of columns have them."""
    return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]


def log_table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=arrow_schema(LOG))


def log_frame(spark: SparkSession, rows: list[dict[str, Any]], *, partitions: int = 2) -> DataFrame:
    """Shuffled on purpose: no job may depend on the order in which rows come."""
    mixed = list(rows)
    random.Random(len(rows)).shuffle(mixed)
    frame = spark.createDataFrame(log_table(mixed))
    return frame.repartition(partitions) if partitions > 1 else frame


def random_history(seed: int, count: int = 400, *, ensemble: str = "e1") -> History:
    """`count` transactions of six sessions at a time: all kinds of writes, multis, closed and expired sessions."""
    rng = random.Random(seed)
    history = History(ensemble)
    sessions: list[int] = []
    last_used: dict[int, float] = {}
    for number in range(count):
        history.wait(rng.choice([0.0, 0.05, 0.4, 1.1, 6.0]) * rng.random() * 2)
        if len(sessions) < 2 or (len(sessions) < 6 and rng.random() < 0.1):
            session = 0x1000 + number
            history.open(session, timeout=rng.choice([2000, 4000]))
            sessions.append(session)
            last_used[session] = history.seconds
            continue
        session = rng.choice(sessions)
        if rng.random() < 0.06:
            sessions.remove(session)
            if rng.random() < 0.5:
                history.close(session)
            else:
                history.at(max(history.seconds, round(last_used[session] + 4.2, 3)))
                history.expire(session)
            continue
        last_used[session] = history.seconds
        if rng.random() < 0.08:
            with history.multi(session):
                for _ in range(rng.randint(1, 4)):
                    _random_write(history, rng, session)
        else:
            _random_write(history, rng, session)
        if rng.random() < 0.02:
            history.new_epoch()
    return history


def _random_write(history: History, rng: random.Random, session: int) -> None:
    taken = sorted(history.versions)
    kind = rng.choice(["create", "create", "set", "set", "delete", "acl", "lock", "lock", "unlock", "refuse"])
    locks = [path for path in history.ephemerals.get(session, []) if path.startswith("/lock")]
    if kind == "refuse" and history._parts is None:
        history.refuse(session, rng.choice(["/a/x", None]), rng.choice([-101, -103, -110]))
    elif kind == "create" or not taken:
        free = [f"/{a}/{b}" for a in "abc" for b in "uvwxyz" if f"/{a}/{b}" not in history.versions]
        if free:
            value = rng.choice([None, b"", rng.randbytes(rng.randint(1, 9))])
            history.create(session, rng.choice(free), value, ephemeral=rng.random() < 0.4)
        else:
            history.create(session, "/queue/item-", b"", sequential=True)
    elif kind == "set":
        history.set(session, rng.choice(taken), rng.choice([None, rng.randbytes(rng.randint(0, 9))]))
    elif kind == "acl":
        history.set_acl(session, rng.choice(taken), f"auth:u{rng.randint(1, 3)}:r")
    elif kind == "delete":
        history.delete(session, rng.choice(taken))
    elif kind == "unlock" and locks:
        history.delete(session, rng.choice(locks))
    else:
        name = rng.choice(["/lock1/n_", f"/lock2/{'0f' * 16}__lock__", f"/lock2/{'ab' * 16}__rlock__"])
        history.create(session, name, b"", ephemeral=True, sequential=True)
