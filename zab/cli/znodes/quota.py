"""`zab quota`: limits on subtrees, as ZooKeeper's shell sets them.

A quota is two znodes; `datatree.quota` describes their text.

    /zookeeper/quota<path>/zookeeper_limits     written by clients: the limits
    /zookeeper/quota<path>/zookeeper_stats      created with it; the servers maintain its sums

Like ZooKeeper's shell, this refuses a quota above or below another one, since a server enforces only the deepest.
Setting a limit keeps the others. Deleting one sets it to -1; deleting all of them removes both znodes.
"""

from typing import Annotated, Any, Final

import typer
from attrs import evolve

from datatree.quota import Limits
from zab.cli.json_form import JsonOption, json_line
from zab.cli.terminal import say
from zab.cli.znodes.caller import Caller, perform
from zab.cli.znodes.options import PathArgument
from zab.cli.znodes.subtree import child_path
from zab.client import BadArgumentsError, Client, NodeExistsError, NoNodeError, NotEmptyError

__all__ = ["KINDS", "delete_quota", "limits_text", "quota_app", "read_quota", "set_quota"]

_ROOT: Final = "/zookeeper/quota"
# The option of ZooKeeper's shell -> the limit.
KINDS: Final = {"n": "count", "b": "total_bytes", "N": "count_hard", "B": "total_bytes_hard"}


quota_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def _limit(options: dict[str, int | None]) -> tuple[str, int]:
    given = [(kind, limit) for kind, limit in options.items() if limit is not None]
    if len(given) != 1:
        raise typer.BadParameter("give one of -n, -b, -N, -B")
    return given[0]


@quota_app.command("set")
def quota_set_command(
    context: typer.Context,
    path: PathArgument,
    count: Annotated[int | None, typer.Option("-n", metavar="COUNT", min=-1, help="Znodes; a soft limit.")] = None,
    size_bytes: Annotated[int | None, typer.Option("-b", metavar="BYTES", min=-1, help="Data; a soft limit.")] = None,
    hard_count: Annotated[int | None, typer.Option("-N", metavar="COUNT", min=-1, help="Znodes; a hard limit.")] = None,
    hard_bytes: Annotated[int | None, typer.Option("-B", metavar="BYTES", min=-1, help="Data; a hard limit.")] = None,
    json: JsonOption = False,
) -> None:
    """Set one limit of a subtree. Servers with enforceQuota=true refuse writes beyond a hard limit. Other servers
    refuse none, and a soft limit never refuses: zab quota list shows the use beside the limits.
    """
    kind, limit = _limit({"n": count, "b": size_bytes, "N": hard_count, "B": hard_bytes})

    async def work(zk: Client, _caller: Caller) -> None:
        limits = await set_quota(zk, path, kind, limit)
        if json:
            say(json_line({"path": path, "limits": _limits_value(limits)}))

    perform(context, work)


@quota_app.command("list")
def quota_list_command(context: typer.Context, path: PathArgument, json: JsonOption = False) -> None:
    """Print the limits of a subtree and what it holds."""

    async def work(zk: Client, _caller: Caller) -> None:
        limits, sums = await read_quota(zk, path)
        if json:
            used = Limits.parse(sums.encode())
            value = {"path": path, "limits": _limits_value(Limits.parse(limits.encode()))}
            say(json_line({**value, "used": {"count": used.count, "bytes": used.total_bytes}}))
            return
        say(f"absolute path is /zookeeper/quota{path}/zookeeper_limits")
        say(f"Output quota for {path} {limits}")
        say(f"Output stat for {path} {sums}")

    perform(context, work)


@quota_app.command("delete")
def quota_delete_command(
    context: typer.Context,
    path: PathArgument,
    count: Annotated[bool, typer.Option("-n", help="Only the soft limit on znodes.")] = False,
    size_bytes: Annotated[bool, typer.Option("-b", help="Only the soft limit on data.")] = False,
    hard_count: Annotated[bool, typer.Option("-N", help="Only the hard limit on znodes.")] = False,
    hard_bytes: Annotated[bool, typer.Option("-B", help="Only the hard limit on data.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove a subtree's quota, or one of its limits."""
    given = {"n": count, "b": size_bytes, "N": hard_count, "B": hard_bytes}
    kinds = [kind for kind, is_given in given.items() if is_given]
    if len(kinds) > 1:
        raise typer.BadParameter("give one of -n, -b, -N, -B, or none")

    async def work(zk: Client, _caller: Caller) -> None:
        limits = await delete_quota(zk, path, kinds[0] if kinds else None)
        if json:
            say(json_line({"path": path, "limits": None if limits is None else _limits_value(limits)}))

    perform(context, work)


def _limits_value(limits: Limits) -> dict[str, Any]:
    """The values for JSON, with null for no limit."""
    values = {
        "count": limits.count,
        "bytes": limits.total_bytes,
        "count_hard": limits.count_hard,
        "bytes_hard": limits.total_bytes_hard,
    }
    return {name: None if value < 0 else value for name, value in values.items()}


def limits_text(limits: Limits) -> bytes:
    """The text that ZooKeeper writes; the `=` after the soft limits is for its parsers before 3.7."""
    text = f"count={limits.count},bytes={limits.total_bytes}"
    hard = {"byteHardLimit": limits.total_bytes_hard, "countHardLimit": limits.count_hard}
    if any(limit != -1 for limit in hard.values()):
        text += "=;" + ";".join(f"{name}={limit}" for name, limit in hard.items())
    return text.encode()


async def set_quota(zk: Client, path: str, kind: str, limit: int) -> Limits:
    """kind: one of `KINDS`. Returns all limits after the change. Raises NoNodeError without a znode at `path`,
    BadArgumentsError if there is a quota above or below."""
    if path == "/" or (path + "/").startswith(_ROOT + "/"):
        raise BadArgumentsError(path, detail="no quota can be set here")
    if await zk.exists(path) is None:
        raise NoNodeError(path)
    before = await _limits(zk, path)
    limits = evolve(before or Limits(), **{KINDS[kind]: limit})
    if before is None:
        await _refuse_nested(zk, path)
        await _make(zk, path, limits_text(limits))
    else:
        await zk.set(_limits_path(path), limits_text(limits))
    return limits


async def read_quota(zk: Client, path: str) -> tuple[str, str]:
    """The texts of the limits and of the sums. Raises NoNodeError without a quota."""
    if await _limits(zk, path) is None:
        raise NoNodeError(path, detail="there is no quota")
    limits, _ = await zk.get(_limits_path(path))
    sums, _ = await zk.get(f"{_ROOT}{path}/zookeeper_stats")
    return (limits or b"").decode("utf-8", "replace"), (sums or b"").decode("utf-8", "replace")


async def delete_quota(zk: Client, path: str, kind: str | None) -> Limits | None:
    """Removes one limit, or with None the quota; returns the remaining limits. Raises NoNodeError without a quota."""
    limits = await _limits(zk, path)
    if limits is None:
        raise NoNodeError(path, detail="there is no quota")
    if kind is not None:
        limits = evolve(limits, **{KINDS[kind]: -1})
        await zk.set(_limits_path(path), limits_text(limits))
        return limits
    async with zk.transaction() as transaction:
        transaction.delete(_limits_path(path))
        transaction.delete(f"{_ROOT}{path}/zookeeper_stats")
    # The znodes on the way exist only for this quota, unless another one is below them.
    while path:
        try:
            await zk.delete(_ROOT + path)
        except (NotEmptyError, NoNodeError):
            break
        path = path.rpartition("/")[0]
    return None


def _limits_path(path: str) -> str:
    return f"{_ROOT}{path}/zookeeper_limits"


async def _limits(zk: Client, path: str) -> Limits | None:
    if path == "/":
        raise NoNodeError(path, detail="there is no quota, and none can be set on the root")
    # If the path is malformed, that of its limits differs, and may be well-formed.
    await zk.exists(path)
    try:
        data, _ = await zk.get(_limits_path(path))
    except NoNodeError:
        return None
    return Limits.parse(data or b"")


async def _refuse_nested(zk: Client, path: str) -> None:
    above = path.rpartition("/")[0]
    while above:
        if await zk.exists(_limits_path(above)) is not None:
            raise BadArgumentsError(path, detail=f"{above}, above it, has a quota")
        above = above.rpartition("/")[0]
    level = [path]
    while level:
        place = level.pop()
        try:
            names = await zk.get_children(_ROOT + place)
        except NoNodeError:
            continue
        if "zookeeper_limits" in names:
            raise BadArgumentsError(path, detail=f"{place}, below it, has a quota")
        level += [child_path(place, name) for name in names if not name.startswith("zookeeper_")]


async def _make(zk: Client, path: str, text: bytes) -> None:
    place = _ROOT
    for name in path[1:].split("/"):
        place = child_path(place, name)
        try:
            await zk.create(place)
        except NodeExistsError:
            continue
    await zk.create(_limits_path(path), text)
    # Its first content does not matter: a server counts the subtree when the znode is created.
    await zk.create(f"{_ROOT}{path}/zookeeper_stats", b"count=0,bytes=0")
