"""Removals: requests that delete znodes, and the end of a session, which deletes its ephemerals (`datatree.prepare`).

Their checks, in ZooKeeper's order; the first that fails gives the error:

    delete          no "/", NUL, no UTF-8 or reserved -> BADARGUMENTS; parent missing -> NONODE; DELETE on the parent ->
                    NOAUTH; NONODE; BADVERSION; NOTEMPTY
    tryRemove       UNIMPLEMENTED while it is off; then as delete, but it does nothing for NONODE, BADVERSION and
                    NOTEMPTY
    removeRecursive UNIMPLEMENTED while it is off; path as in a delete -> BADARGUMENTS; does nothing without a znode;
                    DELETE on the parent -> NOAUTH; more znodes than the limit asked for, or than one transaction has
                    room for -> NOTEMPTY; DELETE on each that has children -> NOAUTH
    deleteContainer UNIMPLEMENTED from a session; NONODE; NOTEMPTY; neither container nor TTL -> BADVERSION
"""

from collections.abc import Generator
from struct import error as StructError  # noqa: N812  (it is a class; the module only names it in lower case)
from typing import Any, Final

from datatree.acl import DELETE
from datatree.errors import ErrorCode, Refused
from datatree.jute import JuteError
from datatree.opcodes import OpCode
from datatree.outstanding import ChangeRecord, Outstanding
from datatree.paths import RESERVED, is_text, parent
from datatree.prepare_settings import PrepareSettings
from datatree.record import Part
from datatree.request_decoding import FIELDS
from datatree.slices import PARTS
from datatree.tree import DataTree
from datatree.write_request import Asked
from datatree.znode import CONTAINER_OWNER, is_ephemeral, is_ttl

__all__ = ["Removals"]

_ANY_VERSION: Final = -1
_CHECK: Final = int(OpCode.CHECK)
_CLOSE_SESSION: Final = int(OpCode.CLOSE_SESSION)
_DELETE: Final = int(OpCode.DELETE)
_DELETE_CONTAINER: Final = int(OpCode.DELETE_CONTAINER)
_MULTI: Final = int(OpCode.MULTI)
_REMOVE_RECURSIVE: Final = int(OpCode.REMOVE_RECURSIVE)
_NOTHING_TO_REMOVE: Final = (ErrorCode.NONODE, ErrorCode.BADVERSION, ErrorCode.NOTEMPTY)


class Removals:
    """The leader's operations that remove znodes, including outstanding changes."""

    __slots__ = ("_outstanding", "_settings", "_tree", "paths_room")

    def __init__(self, tree: DataTree, outstanding: Outstanding, settings: PrepareSettings) -> None:
        self._tree = tree
        self._outstanding = outstanding
        self._settings = settings
        self.paths_room = 0
        """How many bytes of paths the request that is being prepared may still remove recursively."""

    def delete(self, _opcode: int, fields: tuple[Any, ...], request: Asked, zxid: int) -> Part:
        path, expected = fields
        if self._deletable_from(path, request) is None:
            raise Refused(ErrorCode.NONODE)
        change = self._outstanding.view(path)
        if change is None:
            raise Refused(ErrorCode.NONODE)
        if expected != change[2] and expected != _ANY_VERSION:
            raise Refused(ErrorCode.BADVERSION)
        if change[5]:
            raise Refused(ErrorCode.NOTEMPTY)
        self._remove(path, change, zxid)
        return _DELETE, 0, path, None, None

    def try_remove(self, opcode: int, fields: tuple[Any, ...], request: Asked, zxid: int) -> Part:
        if not self._settings.keeper_extensions:
            raise Refused(ErrorCode.UNIMPLEMENTED)
        try:
            return self.delete(opcode, fields, request, zxid)
        except Refused as refused:
            if refused.code not in _NOTHING_TO_REMOVE:
                raise
        path = fields[0]
        found = self._outstanding.view(path)
        # Outside a multi it is not null, as for a createIfNotExists.
        return _CHECK, -1 if found is None else found[2], path, None if request[2] == _MULTI else b"", None

    def remove_recursive(self, request: Asked, zxid: int) -> Generator[None, None, Part]:
        """Logged as what it amounts to: the multi of its deletes, one delete, or a check if there is nothing to
        remove."""
        try:
            fields, _ = FIELDS[_REMOVE_RECURSIVE](request[3], 0)
        except (StructError, IndexError):
            raise JuteError("a removeRecursive that ends early") from None
        deletes = yield from self._remove_subtree(fields, request, zxid, self._settings.multi_parts_max)
        if len(deletes) > 1:
            return _MULTI, 0, b"", None, tuple(deletes)
        return deletes[0] if deletes else (_CHECK, -1, fields[0], b"", None)

    def removed_part(
        self, fields: tuple[Any, ...], request: Asked, zxid: int, count: int
    ) -> Generator[None, None, list[Part]]:
        """A removeRecursive in a multi, after `count` other parts."""
        if not self._settings.is_removed_in_multis():
            raise Refused(ErrorCode.UNIMPLEMENTED)
        deletes = yield from self._remove_subtree(fields, request, zxid, self._settings.multi_parts_max - count)
        return deletes or [(_CHECK, -1, fields[0], None, None)]

    def delete_container(self, _opcode: int, fields: tuple[Any, ...], request: Asked, zxid: int) -> Part:
        (path,) = fields
        # No permission is checked here, so no client may get this far.
        if request[0]:
            raise Refused(ErrorCode.UNIMPLEMENTED)
        change = self._outstanding.view(path)
        if change is None:
            raise Refused(ErrorCode.NONODE)
        if change[5]:
            raise Refused(ErrorCode.NOTEMPTY)
        if change[7] != CONTAINER_OWNER and not is_ttl(change[7]):
            raise Refused(ErrorCode.BADVERSION)
        self._remove(path, change, zxid)
        return _DELETE_CONTAINER, 0, path, None, None

    def close_session(self, request: Asked, zxid: int) -> Generator[None, None, Part]:
        session = request[0]
        paths: list[bytes] = []
        for count, path in enumerate(self._outstanding.perhaps_ephemerals(session), 1):
            change = self._outstanding.view(path)
            if change is not None and change[7] == session:
                self._remove(path, change, zxid)
                paths.append(path)
            if not count % PARTS:
                yield
        return _CLOSE_SESSION, 0, b"", None, tuple(paths)

    def _remove_subtree(
        self, fields: tuple[Any, ...], request: Asked, zxid: int, room: int
    ) -> Generator[None, None, list[Part]]:
        """The deletes, children before their parents. The last one says how many deletes before it belong to the same
        request, so that the answer to a multi has one part for all of them (`datatree.apply`)."""
        path, limit = fields
        if not self._settings.keeper_extensions:
            raise Refused(ErrorCode.UNIMPLEMENTED)
        if self._deletable_from(path, request) is None or self._outstanding.view(path) is None:
            return []
        paths = yield from self._outstanding.subtree(path, min(limit, room))
        self.paths_room -= sum(map(len, paths)) + 4 * len(paths)
        if not paths or self.paths_room < 0:
            raise Refused(ErrorCode.NOTEMPTY)
        for each in paths:
            change = self._outstanding.view(each)
            if change is not None and change[5] and change[6] is not None:
                self._settings.permit(change[6], DELETE, request)
        for count, each in enumerate(reversed(paths), 1):
            change = self._outstanding.view(each)
            assert change is not None
            self._remove(each, change, zxid)
            if not count % PARTS:
                yield
        deletes: list[Part] = [(_DELETE, 0, each, None, None) for each in reversed(paths)]
        deletes[-1] = (_DELETE, len(paths) - 1, path, None, None)
        return deletes

    def _deletable_from(self, path: bytes, request: Asked) -> ChangeRecord | None:
        """The parent of `path`, if the request may delete its children; None if there is no parent."""
        if 0x2F not in path or 0 in path or path in RESERVED or not is_text(path):
            raise Refused(ErrorCode.BADARGUMENTS)
        holder = self._outstanding.view(parent(path))
        if holder is not None and holder[6] is not None:
            self._settings.permit(holder[6], DELETE, request)
        return holder

    def _remove(self, path: bytes, change: ChangeRecord, zxid: int) -> None:
        above = parent(path)
        holder = self._outstanding.view(above)
        assert holder is not None
        assert holder[5] > 0
        charge = None
        if self._settings.enforce_quota and self._tree.quotas:
            charge = self._outstanding.charge(path, -1, -change[8], check=False)
        self._outstanding.put(path, (zxid, False, 0, 0, 0, 0, None, 0, 0, 0, 0, 0, 0, 0), charge)
        self._outstanding.put(above, (zxid, *holder[1:5], holder[5] - 1, *holder[6:13], zxid))
        if change[7] and is_ephemeral(change[7]):
            self._outstanding.disown(path, change[7], zxid)
