"""Checks: the parts of a multi that change nothing, and refuse it if a znode is not as the client expects it.

In ZooKeeper's order; the first that fails gives the error:

    check           path -> BADARGUMENTS; NONODE; READ -> NOAUTH; BADVERSION
    checkNotExists  UNIMPLEMENTED while it is off; READ -> NOAUTH; found with this version -> NODEEXISTS
    checkStat       UNIMPLEMENTED while it is off; then as check; a different Stat -> BADVERSION
"""

from typing import Any, Final

from datatree.acl import READ
from datatree.errors import ErrorCode, Refused
from datatree.opcodes import OpCode
from datatree.outstanding import Outstanding
from datatree.paths import is_valid, missing
from datatree.prepare_settings import PrepareSettings
from datatree.record import Part
from datatree.write_request import Asked

__all__ = ["Checks"]

_ANY_VERSION: Final = -1
_CHECK: Final = int(OpCode.CHECK)


class Checks:
    """The leader's operations that check one znode, including outstanding changes."""

    __slots__ = ("_outstanding", "_settings")

    def __init__(self, outstanding: Outstanding, settings: PrepareSettings) -> None:
        self._outstanding = outstanding
        self._settings = settings

    def check(self, _opcode: int, fields: tuple[Any, ...], request: Asked, _zxid: int) -> Part:
        path, expected = fields
        change = self._outstanding.view(path)
        if change is None:
            raise missing(path)
        self._settings.permit(change[6], READ, request)
        if expected != change[2] and expected != _ANY_VERSION:
            raise Refused(ErrorCode.BADVERSION)
        return _CHECK, change[2], path, None, None

    def check_not_exists(self, _opcode: int, fields: tuple[Any, ...], request: Asked, _zxid: int) -> Part:
        path, expected = fields
        if not self._settings.keeper_extensions:
            raise Refused(ErrorCode.UNIMPLEMENTED)
        if not is_valid(path):
            raise Refused(ErrorCode.BADARGUMENTS)
        change = self._outstanding.view(path)
        if change is None:
            return _CHECK, -1, path, None, None
        self._settings.permit(change[6], READ, request)
        if expected in (change[2], _ANY_VERSION):
            raise Refused(ErrorCode.NODEEXISTS)
        return _CHECK, change[2], path, None, None

    def check_stat(self, opcode: int, fields: tuple[Any, ...], request: Asked, zxid: int) -> Part:
        path, expected, stat = fields
        if not self._settings.keeper_extensions:
            raise Refused(ErrorCode.UNIMPLEMENTED)
        checked = self.check(opcode, (path, expected), request, zxid)
        if not self._outstanding.has_stat(path, stat):
            raise Refused(ErrorCode.BADVERSION)
        return checked
