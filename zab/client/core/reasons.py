"""Why a request was refused, if the request tells more than the meaning of its error code.

    NOAUTH          the missing permission, and of which znode
    NONODE          of a create: the missing parent or chroot
    UNIMPLEMENTED   the key of `zoo.cfg` that switches the operation on
    BADARGUMENTS    the request is large, a znode is reserved, the reads ask for too much at once; also what is wrong
                    with a path, before anything is sent

Paths are the caller's. Pure.
"""

from typing import Final

from datatree.errors import ErrorCode
from datatree.opcodes import KEEPERS, OpCode
from datatree.paths import CONFIG, RESERVED, is_valid_name

__all__ = ["path_fault", "reason"]

LARGE_BODY_BYTES: Final = 256 << 10
_CREATES: Final = frozenset(
    {OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL, OpCode.CREATE_IF_NOT_EXISTS}
)
# The permission, for the znode itself or for its parent.
_PERMISSIONS: Final = {
    **dict.fromkeys(_CREATES, ("CREATE", True)),
    OpCode.DELETE: ("DELETE", True),
    OpCode.TRY_REMOVE: ("DELETE", True),
    OpCode.SET_DATA: ("WRITE", False),
    OpCode.RECONFIG: ("WRITE", False),
    OpCode.HAND_OVER: ("WRITE", False),
    OpCode.SET_ACL: ("ADMIN", False),
    OpCode.GET_ACL: ("READ or ADMIN", False),
    OpCode.EXISTS: ("READ", False),
    OpCode.GET_DATA: ("READ", False),
    OpCode.GET_CHILDREN: ("READ", False),
    OpCode.GET_CHILDREN2: ("READ", False),
    OpCode.GET_CHILDREN_PAGE: ("READ", False),
    OpCode.GET_ALL_CHILDREN_NUMBER: ("READ", False),
    OpCode.CHECK: ("READ", False),
    OpCode.CHECK_NOT_EXISTS: ("READ", False),
    OpCode.CHECK_STAT: ("READ", False),
    OpCode.FILTERED_LIST: ("READ", False),
    OpCode.LIST_RECURSIVE: ("READ", False),
    OpCode.FILTERED_LIST_WITH_STATS_AND_DATA: ("READ", False),
}
_REMOVALS: Final = (OpCode.DELETE, OpCode.TRY_REMOVE, OpCode.REMOVE_RECURSIVE)
_LISTS: Final = (OpCode.FILTERED_LIST, OpCode.FILTERED_LIST_WITH_STATS_AND_DATA, OpCode.LIST_RECURSIVE)
_KEYS: Final = {
    OpCode.CREATE_TTL: "extendedTypesEnabled",
    OpCode.CREATE_IF_NOT_EXISTS: "createIfNotExistsEnabled",
    **dict.fromkeys(KEEPERS, "keeperExtensionsEnabled"),
}


def reason(code: int, opcode: int, path: str | None, body_bytes: int = 0) -> str | None:
    """Explains why a request of type `opcode` was answered with `code`; None if there is no more to say."""
    if code == ErrorCode.BADARGUMENTS and body_bytes > LARGE_BODY_BYTES:
        return f"a request of {body_bytes:,} bytes, which may be above the server's jute.maxbuffer"
    if code == ErrorCode.UNIMPLEMENTED and opcode in _KEYS:
        return (
            f"the operation is switched off; {_KEYS[OpCode(opcode)]}=true in the zoo.cfg of all members switches it on"
        )
    if code == ErrorCode.UNIMPLEMENTED and opcode == OpCode.GET_CHILDREN_PAGE:
        return "this server has no pages of children; ZooKeeper's have none"
    if code == ErrorCode.BADARGUMENTS and opcode == OpCode.GET_CHILDREN_PAGE:
        return "a page has one name at least"
    if code == ErrorCode.BADARGUMENTS and opcode == OpCode.MULTI_READ:
        return "the answer is above the server's jute.maxbuffer; ask for less at once"
    if code == ErrorCode.NOTEMPTY and opcode == OpCode.REMOVE_RECURSIVE:
        return "there are more znodes than its limit, or than one transaction has room for"
    if code == ErrorCode.NOAUTH and opcode == OpCode.REMOVE_RECURSIVE:
        return "no identity of the connection has the permission DELETE of its parent, or of a parent below it"
    if code == ErrorCode.BADARGUMENTS and opcode in _LISTS:
        return "the answer is above what the server gives at once; get_children_page has no such end"
    if path is None:
        return None
    if code == ErrorCode.BADARGUMENTS and opcode in _REMOVALS and path.encode() in RESERVED:
        return "it is reserved: it is in every tree and cannot be deleted"
    if code == ErrorCode.BADARGUMENTS and opcode == OpCode.SET_DATA and path.encode() == CONFIG:
        return "it is reserved: reconfigurations alone change it"
    if code == ErrorCode.NONODE and opcode in _CREATES and _parent(path) == "/":
        return 'the chroot does not exist; ensure_path("/") makes it'
    if code == ErrorCode.NONODE and opcode in _CREATES:
        return f"its parent {_parent(path)} does not exist"
    if code == ErrorCode.NOAUTH and opcode in _PERMISSIONS:
        permission, is_of_parent = _PERMISSIONS[OpCode(opcode)]
        where = f"its parent {_parent(path)}" if is_of_parent else "it"
        return f"no identity of the connection has the permission {permission} of {where}"
    return None


def path_fault(path: str) -> str:
    """What is wrong with a path that is not valid."""
    if not path.startswith("/"):
        return "a path begins with a slash"
    if path.endswith("/"):
        return "a path does not end with a slash"
    for name in path[1:].split("/"):
        if not name:
            return "a path has no two slashes in a row"
        if name in (".", ".."):
            return f"no part of a path is {name}"
        for character in name:
            if not _is_allowed(character):
                return f"U+{ord(character):04X} is not allowed in a path"
    return "not a valid path"


def _is_allowed(character: str) -> bool:
    try:
        return is_valid_name(character.encode() + b"x")
    except UnicodeEncodeError:
        return False


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
