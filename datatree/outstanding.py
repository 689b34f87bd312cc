"""Outstanding changes: a view of the tree with everything prepared and not yet applied.

A request is checked against the tree as it will be when everything prepared before has been applied. So each path that
such a transaction changes has a change record with what later checks need to know about the znode:

    (zxid, exists, version, cversion, aversion, number of children, acl, owner, length of data,
     czxid, mzxid, ctime, mtime, pzxid)

The cversion is the internal one and the owner the stored one, as in `datatree.znode`. A record is valid until its zxid
is applied; from then on the tree says the same.

Besides the records it has, while their transactions are outstanding, the sessions created and closing, the ephemerals
that each session gained or lost, and what each quota gained.

Invariants:
- `view(path)` after preparing a transaction is the tree's znode after applying it.
- `rollback` undoes everything since `begin`: every value is restored, including those of parents (ZOOKEEPER-1624).
- Records are removed in the order in which they were added, so `applied` takes time for what was applied and no more.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final, TypeAlias
from zlib import crc32

from datatree.created import Created
from datatree.errors import ErrorCode, Refused
from datatree.record import AclList
from datatree.slices import FORGOTTEN, PARTS
from datatree.state import NO_CHILDREN
from datatree.tree import DataTree
from datatree.znode import CHECKED, HEAD, STAT_AT, visible_cversion, visible_owner

__all__ = ["ChangeRecord", "Outstanding"]

ChangeRecord: TypeAlias = tuple[int, bool, int, int, int, int, AclList, int, int, int, int, int, int, int]
# Quotas that a change counts for, znodes and bytes that it adds to each.
Charge: TypeAlias = tuple[tuple[bytes, ...], int, int]

_ABSENT: Final = object()
_ANY: Final = -1
# In ZooKeeper's formats, a path in the list of a closeSession takes four bytes more than its length.
_LENGTH_BYTES: Final = 4


class Outstanding:
    """The view over `tree`. `changes` is by path, `created` and `closing` are by session. `queue` lists what to forget,
    in order; `journal` lists what to restore, and is None outside of a multi."""

    __slots__ = (
        "_applied_meanwhile",
        "_charged",
        "_created",
        "_ephemeral_bytes",
        "_journal_queue_count",
        "_session_queue",
        "_touched",
        "_tree",
        "changes",
        "closing",
        "created",
        "journal",
        "queue",
    )

    def __init__(self, tree: DataTree) -> None:
        self._tree = tree
        self.changes: dict[bytes, ChangeRecord] = {}
        self.created: dict[int, int] = {}
        self.closing: dict[int, int] = {}
        self.queue: deque[tuple[int, bytes, int, Charge | None]] = deque()
        self._created = Created(self.queue)
        self._session_queue: deque[tuple[int, dict[int, int], int]] = deque()
        # By session: its ephemerals that were created or deleted, with the zxid of the last such change.
        self._touched: dict[int, dict[bytes, int]] = {}
        # By session: the bytes of its ephemerals' paths, outstanding ones included; only for sessions that were asked
        # about, since later changes go through here.
        self._ephemeral_bytes: dict[int, int] = {}
        self._charged: dict[bytes, tuple[int, int]] = {}
        self.journal: list[tuple[dict[Any, Any], Any, Any]] | None = None
        self._journal_queue_count = 0
        self._applied_meanwhile = 0

    def __len__(self) -> int:
        """How many changes of a path are outstanding."""
        return len(self.queue)

    def plain(self) -> tuple[Any, ...]:
        """What plain writes are prepared against (`datatree.compiled`). These objects stay the same."""
        tree = self._tree
        return self.changes, self.queue, tree.sessions, self.closing, tree.shards, tree.quotas, _ABSENT

    def view(self, path: bytes) -> ChangeRecord | None:
        """The znode at `path` as it will be, or None if there will be none."""
        change = self.changes.get(path)
        if change is not None:
            return change if change[1] else None
        znode = self._tree.shards[crc32(path) & 4095].get(path)
        if znode is None:
            return None
        acl_id, owner, cversion, _, _ = HEAD.unpack_from(znode)
        czxid, mzxid, ctime, mtime, version, aversion, length, count, pzxid = CHECKED.unpack_from(znode, STAT_AT)
        acl = self._tree.acls.lists[acl_id]
        return 0, True, version, cversion, aversion, count, acl, owner, length, czxid, mzxid, ctime, mtime, pzxid

    def has_stat(self, path: bytes, asked: Iterable[int]) -> bool:
        """Whether a client would see this Stat of the znode; -1 matches any value."""
        change = self.view(path)
        assert change is not None
        _, _, version, cversion, aversion, count, _, owner, length, czxid, mzxid, ctime, mtime, pzxid = change
        found = (
            *(czxid, mzxid, ctime, mtime, version, visible_cversion(cversion, count), aversion),
            *(visible_owner(owner), length, count, pzxid),
        )
        return all(value in (_ANY, of_znode) for value, of_znode in zip(asked, found, strict=True))

    def children(self, path: bytes, count: int) -> Iterator[bytes | None]:
        """The `count` paths of the children that the znode at `path` will have; None for each one that was examined in
        vain."""
        seen: set[bytes] = set()
        # A list, because the tree may change meanwhile.
        for child in [*self._created.below(path), *self._tree.children.get(path, NO_CHILDREN)] if count else ():
            if len(seen) == count:
                return
            if child not in seen and self.view(child) is not None:
                seen.add(child)
                yield child
            else:
                yield None
        assert len(seen) == count, f"{len(seen)} children of {path!r}, {count} expected"

    def subtree(self, path: bytes, limit: int) -> Generator[None, None, list[bytes]]:
        """The path of a znode, and the paths of all that will be below it, parents first; empty if they are more than
        `limit`. Yields after each slice."""
        paths, count, looked_at = [path], 1, 0
        for above in paths:
            holder = self.view(above)
            assert holder is not None
            count += holder[5]
            if count > limit:
                return []
            for child in self.children(above, holder[5]):
                if child is not None:
                    paths.append(child)
                looked_at += 1
                if not looked_at % PARTS:
                    yield
        return paths

    def put(self, path: bytes, change: ChangeRecord, charge: Charge | None = None) -> None:
        """Set how the znode at `path` will be; call `own` or `disown` for an ephemeral that is created or deleted."""
        # `_set` inlined, for the parts of a multi.
        changes = self.changes
        if self.journal is not None:
            self.journal.append((changes, path, changes.get(path, _ABSENT)))
        changes[path] = change
        self.queue.append((change[0], path, 0, charge))
        if charge is not None:
            paths, count, length = charge
            for quota in paths:
                before = self._charged.get(quota, (0, 0))
                self._set(self._charged, quota, (before[0] + count, before[1] + length))

    # Ephemerals.

    def ephemerals(self, session: int) -> list[bytes]:
        """The paths that `session` will own; applied ones in the order of their creation."""
        paths = self.perhaps_ephemerals(session)
        return [path for path in paths if (change := self.view(path)) is not None and change[7] == session]

    def perhaps_ephemerals(self, session: int) -> list[bytes]:
        """Paths that `session` will own, and some that it will no longer own."""
        return list(dict.fromkeys([*self._tree.ephemerals.get(session, ()), *self._touched.get(session, ())]))

    def may_own_more_than(self, count: int, session: int) -> bool:
        """Whether `perhaps_ephemerals` may return more than that."""
        return len(self._tree.ephemerals.get(session, ())) + len(self._touched.get(session, ())) > count

    def ephemeral_bytes(self, session: int) -> int:
        """How many bytes the paths that `session` will own take in its closeSession."""
        total = self._ephemeral_bytes.get(session)
        if total is None:
            total = sum(len(path) + _LENGTH_BYTES for path in self.ephemerals(session))
            self._set(self._ephemeral_bytes, session, total)
        return total

    def own(self, path: bytes, session: int, zxid: int) -> None:
        """Note that the ephemeral at `path` will exist. Call it after `put`."""
        total = self.ephemeral_bytes(session)
        self._touch(path, session, zxid)
        self._set(self._ephemeral_bytes, session, total + len(path) + _LENGTH_BYTES)

    def disown(self, path: bytes, session: int, zxid: int) -> None:
        """Note that the ephemeral at `path` will be gone."""
        self._touch(path, session, zxid)
        total = self._ephemeral_bytes.get(session)
        if total is not None:
            self._set(self._ephemeral_bytes, session, total - len(path) - _LENGTH_BYTES)

    def _touch(self, path: bytes, session: int, zxid: int) -> None:
        touched = self._touched.get(session)
        if touched is None:
            touched = {}
            self._set(self._touched, session, touched)
        self._set(touched, path, zxid)
        self.queue.append((zxid, path, session, None))

    # Sessions.

    def create_session(self, session: int, zxid: int) -> None:
        self.created[session] = zxid
        self._session_queue.append((zxid, self.created, session))

    def close_session(self, session: int, zxid: int) -> None:
        self.closing[session] = zxid
        self._ephemeral_bytes.pop(session, None)
        self._session_queue.append((zxid, self.closing, session))

    def has_session(self, session: int) -> bool:
        """Whether it is a global session that will exist and is not closing."""
        return (session in self._tree.sessions or session in self.created) and session not in self.closing

    # Quotas.

    def charged(self, quota: bytes) -> tuple[int, int]:
        """The znodes and bytes that outstanding changes add to the quota at this path."""
        return self._charged.get(quota, (0, 0))

    def charge(self, path: bytes, count: int, growth: int, *, check: bool) -> Charge:
        """What a change of `path` by so many znodes and bytes adds to quotas; refused if it exceeds a hard limit.

        ZooKeeper compares with what is applied, so that writes in flight overshoot; here they count.
        """
        quotas = self._tree.quotas.around(path)
        limited = [quota for quota in quotas if quota.limits is not None]
        if check and limited and limited[-1].is_counted:
            quota = limited[-1]
            assert quota.limits is not None
            more_count, more_bytes = self.charged(quota.path)
            count_hard, bytes_hard = quota.limits.count_hard, quota.limits.total_bytes_hard
            if (count and -1 < count_hard < quota.count + more_count + count) or (
                growth and -1 < bytes_hard < quota.total_bytes + more_bytes + growth
            ):
                raise Refused(ErrorCode.QUOTAEXCEEDED)
        return tuple(quota.path for quota in quotas), count, growth

    # A multi: all of its changes or none.

    def begin(self) -> None:
        """Record everything that changes from here on, for `rollback`."""
        assert self.journal is None
        self.journal = []
        self._journal_queue_count = len(self.queue)

    def commit(self) -> None:
        """Keep the changes since `begin`."""
        assert self.journal is not None
        self.journal = None
        self._forget_applied()

    def rollback(self) -> None:
        """Restore everything as it was at `begin`."""
        assert self.journal is not None
        for mapping, key, before in reversed(self.journal):
            if before is _ABSENT:
                del mapping[key]
            else:
                mapping[key] = before
        self.journal = None
        while len(self.queue) > self._journal_queue_count:
            self.queue.pop()
        self._created.cut()
        self._forget_applied()

    def _forget_applied(self) -> None:
        if self._applied_meanwhile:
            zxid, self._applied_meanwhile = self._applied_meanwhile, 0
            self.applied(zxid)

    def _set(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        if self.journal is not None:
            self.journal.append((mapping, key, mapping.get(key, _ABSENT)))
        mapping[key] = value

    # Applying.

    def applied(self, zxid: int) -> None:
        """The tree has applied everything up to `zxid`: forget at most `FORGOTTEN` changes up to there, and the rest
        the next time. Between `begin` and its end nothing is forgotten, so that everything can be restored."""
        if self.journal is not None:
            self._applied_meanwhile = zxid
            return
        queue = self.queue
        count = len(queue) if self._created.known_count else 0
        if queue and queue[-1][0] <= zxid:
            # Forget everything, as after every batch under light load.
            queue.clear()
            self.changes.clear()
            self._touched.clear()
            self._charged.clear()
        # Changes not forgotten yet say the same as the tree; but their charges would count twice.
        left = len(queue) if self._charged else FORGOTTEN
        while queue and queue[0][0] <= zxid and left:
            left -= 1
            at, path, session, charge = queue.popleft()
            if session:
                self._untouch(session, path, at)
                continue
            change = self.changes.get(path)
            if change is not None and change[0] <= zxid:
                del self.changes[path]
            if charge is not None:
                self._uncharge(charge)
        if count:
            self._created.dropped(count - len(queue))
        while self._session_queue and self._session_queue[0][0] <= zxid:
            _, sessions, session = self._session_queue.popleft()
            del sessions[session]

    def _untouch(self, session: int, path: bytes, zxid: int) -> None:
        # A multi may change a path several times under its one zxid.
        touched = self._touched.get(session)
        if touched is not None and touched.get(path) == zxid:
            del touched[path]
            if not touched:
                del self._touched[session]

    def _uncharge(self, charge: Charge) -> None:
        paths, count, length = charge
        for quota in paths:
            before = self._charged.get(quota, (0, 0))
            after = before[0] - count, before[1] - length
            if after == (0, 0):
                self._charged.pop(quota, None)
            else:
                self._charged[quota] = after
