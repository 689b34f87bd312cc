"""The job `diff`: the differences between two states, as a table and as `zab` commands that turn one into the other.

    diff(before, after)        DataFrame of DIFF: a row for each path that was created, deleted or changed
    diff_commands(changes)     lines for a shell, in an order that works

A change is one of data, ACL or stored owner (the kind of znode); `recreated` says that the znode was deleted and
created again in between. Versions and times alone are no change.

The commands delete first, children before their parents, then create and change, parents before their children. Data
that is not text is given as base64, long data through a pipe. Lines that begin with # describe changes that no command
can make:

- an ephemeral lives as long as the session that creates it, and a command's session ends with the command;
- ephemerals and TTL znodes, which end by themselves, are only deleted if their parent is;
- a znode of another kind has to be created again, which is impossible while it keeps children;
- data can become null only if the znode is created again;
- `zab acl set` cannot express some ACLs: an empty one, a comma in an id, permissions without a letter.

`--force` goes with every ACL: it is that of the other state, even if it locks out its caller.
`/zookeeper/config` is each member's own text, and the service counts the sums of quotas: both are left out.
"""

import base64
from collections.abc import Iterable, Iterator
from shlex import quote
from typing import TYPE_CHECKING, Final, NamedTuple

from datatree.paths import CONFIG
from datatree.znode import CONTAINER_OWNER, is_ephemeral, is_ttl, ttl_ms
from zab.pipeline.decoding.acl_text import OPEN_ACL_TEXT
from zab.pipeline.schema import Column
from zab.pipeline.sql import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["DIFF", "Change", "diff", "diff_commands", "lines_of_creations", "lines_of_deletions"]

DIFF: Final = (
    Column("ensemble", "string", "as in the log"),
    Column("path", "string", "path of the znode"),
    Column("change", "string", "created, deleted or changed"),
    Column("fields", "array<string>", "for changed: which of data, acl and owner differ"),
    Column("recreated", "boolean", "whether it was deleted and created again in between"),
    Column("data_before", "binary", "null is not the same as empty"),
    Column("data_after", "binary", "null is not the same as empty"),
    Column("acl_before", "string", "as in the log"),
    Column("acl_after", "string", "as in the log"),
    Column("owner_before", "bigint", "as stored: 0, session, container constant or TTL value"),
    Column("owner_after", "bigint", "as stored"),
    Column("children_before", "int", "count of children"),
    Column("children_after", "int", "count of children"),
    Column(
        "zxid",
        "bigint",
        "zxid of the last transaction that created it or set its data; for a deleted znode, in the earlier state",
    ),
    Column("time", "timestamp", "time of that transaction"),
)

# The kernel takes at most 128 KiB as one argument.
_ARGUMENT_BYTES_MAX: Final = 60_000
_LETTERS: Final = frozenset("cdrwa")
_COMPARED: Final = ("data", "acl", "owner")


class Change(NamedTuple):
    """The columns of DIFF that the commands need."""

    path: str
    change: str
    fields: list[str]
    data_before: bytes | None
    data_after: bytes | None
    acl_after: str | None
    owner_before: int | None
    owner_after: int | None
    children_before: int | None
    children_after: int | None


def diff(before: "DataFrame", after: "DataFrame") -> "DataFrame":
    """Rows of DIFF; both arguments have rows of ZNODES, each of one state of the same ensembles."""
    names = ("data", "acl", "owner", "num_children", "czxid", "mzxid", "mtime")
    kept = F.col("path") != CONFIG.decode()
    left, right = (
        state.where(kept).select("ensemble", "path", F.struct(*names).alias(side))
        for state, side in ((before, "old"), (after, "new"))
    )
    both = left.join(right, ["ensemble", "path"], "full_outer")
    is_new, is_gone = F.col("old").isNull(), F.col("new").isNull()
    differs = {name: ~F.col(f"old.{name}").eqNullSafe(F.col(f"new.{name}")) for name in (*_COMPARED, "czxid")}
    fields = F.filter(F.array(*(F.when(differs[name], name) for name in _COMPARED)), lambda name: name.isNotNull())
    is_changed = ~is_new & ~is_gone
    last = F.coalesce("new", "old")
    change = F.when(is_new, "created").when(is_gone, "deleted").otherwise("changed")
    different = is_new | is_gone | differs["data"] | differs["acl"] | differs["owner"] | differs["czxid"]
    rows = both.where(different).select(
        "ensemble",
        "path",
        change.alias("change"),
        F.when(is_changed, fields).otherwise(F.array()).alias("fields"),
        (is_changed & differs["czxid"]).alias("recreated"),
        *(
            F.col(f"{side}.{name}").alias(f"{column}_{when}")
            for name, column in (("data", "data"), ("acl", "acl"), ("owner", "owner"), ("num_children", "children"))
            for side, when in (("old", "before"), ("new", "after"))
        ),
        last["mzxid"].alias("zxid"),
        last["mtime"].alias("time"),
    )
    return rows.select(*(F.col(column.name).cast(column.type).alias(column.name) for column in DIFF))


def diff_commands(changes: "DataFrame") -> Iterator[str]:
    """Yield the lines for a shell that turn the state before into the state after. changes: rows of DIFF, in any order.

    Memory holds one partition of the rows at a time."""
    rows = changes.select(*Change._fields)
    yield from lines_of_deletions(map(_change, rows.orderBy(F.col("path").desc()).toLocalIterator()))
    yield from lines_of_creations(map(_change, rows.orderBy("path").toLocalIterator()))


def _change(row: tuple[object, ...]) -> Change:
    return Change._make(bytes(value) if isinstance(value, bytearray) else value for value in row)


def lines_of_deletions(changes: Iterable[Change]) -> Iterator[str]:
    """Yield the deletions. `changes` by falling path, so that children come before their parents.

    Memory holds the paths of znodes that end by themselves."""
    ending: dict[str, list[Change]] = {}
    for change in changes:
        owner = change.owner_before or 0
        if change.change == "deleted" and (is_ephemeral(owner) or is_ttl(owner)):
            slim = change._replace(data_before=None, data_after=None)
            ending.setdefault(_parent(change.path), []).append(slim)
        elif change.change == "deleted" or (change.change == "changed" and _is_replaced(change)):
            yield from _deletion(change.path, ending)
    for change in (one for below in ending.values() for one in below):
        yield _note(change.path, _ending(change.owner_before or 0))


def _deletion(path: str, ending: dict[str, list[Change]]) -> Iterator[str]:
    """Delete a znode, and before it those below it that end by themselves: a parent cannot be deleted."""
    for change in ending.pop(path, ()):
        yield from _deletion(change.path, ending)
    yield f"zab delete -- {quote(path)}"


def _ending(owner: int) -> str:
    if is_ttl(owner):
        return f"gone then, and it ends by itself {ttl_ms(owner)} ms after its last change"
    return f"gone then, and it ends with session {owner & (1 << 64) - 1:#x}"


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def lines_of_creations(changes: Iterable[Change]) -> Iterator[str]:
    """Yield the creations and changes. `changes` by rising path, so that parents come before their children."""
    for change in changes:
        if change.change == "created" or (change.change == "changed" and _is_replaced(change)):
            yield from _creation(change)
        elif change.change == "changed":
            yield from _setting(change)


def _is_replaced(change: Change) -> bool:
    """Whether the znode has to be created again, and can be: a znode that keeps children cannot be deleted."""
    is_nulled = "data" in change.fields and change.data_after is None
    keeps_children = bool(change.children_before) and bool(change.children_after)
    return ("owner" in change.fields or is_nulled) and not keeps_children


def _creation(change: Change) -> Iterator[str]:
    path, owner, acl, data = change.path, change.owner_after or 0, change.acl_after or "", change.data_after
    options = ""
    if is_ephemeral(owner):
        yield _note(path, f"an ephemeral of session {owner & (1 << 64) - 1:#x}, which alone can make it")
        return
    if owner == CONTAINER_OWNER:
        options = " --container"
    elif is_ttl(owner):
        options = f" --ttl {ttl_ms(owner)}"
    is_guarded = acl != OPEN_ACL_TEXT and _can_say(acl)
    if is_guarded and data is not None:
        options += " --force"
    if data is None:
        yield f"zab create{options} -- {quote(path)}"
        if is_guarded:
            yield _acl_setting(path, acl)
    elif len(data) > _ARGUMENT_BYTES_MAX:
        yield f"zab create{options} -- {quote(path)} ''" + (f" {quote(acl)}" if is_guarded else "")
        yield _piped(path, data)
    else:
        option, text = _argument(data)
        yield f"zab create{options}{option} -- {quote(path)} {text}" + (f" {quote(acl)}" if is_guarded else "")
    if not _can_say(acl):
        yield _note(path, f"its ACL is {acl!r}, which no command can set")


def _setting(change: Change) -> Iterator[str]:
    path, data, acl = change.path, change.data_after, change.acl_after or ""
    if "owner" in change.fields:
        yield _note(path, "another kind of znode now, which cannot be created again because it keeps children")
    if "data" in change.fields:
        if data is None:
            yield _note(path, "without data now; a command can only make the data empty")
            yield f"zab set -- {quote(path)} ''"
        elif len(data) > _ARGUMENT_BYTES_MAX:
            yield _piped(path, data)
        else:
            option, text = _argument(data)
            yield f"zab set{option} -- {quote(path)} {text}"
    if "acl" in change.fields:
        yield _acl_setting(path, acl) if _can_say(acl) else _note(path, f"its ACL is {acl!r}, which no command can set")


def _acl_setting(path: str, acl: str) -> str:
    return f"zab acl set --force -- {quote(path)} {quote(acl)}"


def _piped(path: str, data: bytes) -> str:
    """A command for long data: the shell's own printf takes text of any length."""
    return f"printf %s {base64.b64encode(data).decode()} | zab set --base64 --file - -- {quote(path)}"


def _argument(data: bytes) -> tuple[str, str]:
    """The option and the quoted text that give this data."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable():
        return "", quote(text)
    return " --base64", base64.b64encode(data).decode()


def _can_say(acl: str) -> bool:
    """Whether `zab acl set` understands this text in the same way."""
    return (
        bool(acl) and "\\" not in acl and all(_LETTERS.issuperset(part.rpartition(":")[2]) for part in acl.split(","))
    )


def _note(path: str, text: str) -> str:
    # Paths should have no control characters, but files may be hostile.
    shown = path if path.isprintable() else ascii(path)
    return f"# {shown}: {text if text.isprintable() else ascii(text)}"
