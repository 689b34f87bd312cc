"""`zab find`: the paths of the znodes of a subtree that pass all the given tests.

Tests of the Stat come first; data and ACLs are read only for znodes that passed those. The age of data is the time of
this machine less the time of the leader's clock when it was written.

    --newer 15m, --older 2026-03-01     by the time of the last change of the data; an age, or a time as anywhere
    --larger 10k, --smaller 1M          more, or less, bytes of data; k, M and G are powers of 1024
    --acl world:anyone, --acl digest    an entry of this scheme, and of this id; :r after it: that also grants this
"""

import datetime
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from fnmatch import fnmatchcase
from typing import Annotated, Final, TypeAlias

import typer

from zab.cli.json_form import JsonOption, json_line
from zab.cli.moments import TIME_HELP, parse_age
from zab.cli.numbers import parse_session, parse_size
from zab.cli.terminal import say
from zab.cli.znodes.caller import Caller, perform
from zab.cli.znodes.json_values import stat_value
from zab.cli.znodes.options import PathArgument
from zab.cli.znodes.walking import LeftOut, Seen, patient, read_along, walk_znodes
from zab.client import Acl, Client, Permission
from zab.client.znodes import Znodes

__all__ = ["find_command"]

Test: TypeAlias = Callable[[Seen], bool]
DataTest: TypeAlias = Callable[[bytes], bool]
AclTest: TypeAlias = Callable[[tuple[Acl, ...]], bool]

_AGE: Final = f"an age such as 15m, or a time {TIME_HELP}"


def find_command(
    context: typer.Context,
    path: PathArgument = "/",
    name: Annotated[
        str | None, typer.Option("--name", metavar="GLOB", help="Its name matches this pattern; * ? [].")
    ] = None,
    data: Annotated[str | None, typer.Option("--data", metavar="TEXT", help="Its data contains this text.")] = None,
    data_regex: Annotated[
        str | None, typer.Option("--data-regex", metavar="REGEX", help="Its data matches this regular expression.")
    ] = None,
    newer: Annotated[str | None, typer.Option("--newer", metavar="AGE", help=f"Changed after {_AGE}.")] = None,
    older: Annotated[str | None, typer.Option("--older", metavar="AGE", help="Changed before.")] = None,
    larger: Annotated[
        str | None, typer.Option("--larger", metavar="BYTES", help="More data than this, such as 10k.")
    ] = None,
    smaller: Annotated[str | None, typer.Option("--smaller", metavar="BYTES", help="Less data than this.")] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="SESSION", help="Ephemeral, owned by this session.")
    ] = None,
    ephemeral: Annotated[bool, typer.Option("--ephemeral", help="Ephemeral, owned by any session.")] = False,
    acl: Annotated[
        str | None,
        typer.Option("--acl", metavar="SCHEME[:ID[:PERMISSIONS]]", help="Its ACL names them, and grants all of these."),
    ] = None,
    depth: Annotated[int | None, typer.Option("--depth", "-d", min=0, help="At most N levels below PATH.")] = None,
    json: JsonOption = False,
) -> None:
    tests: list[Test] = []
    if name is not None:
        tests.append(lambda seen: fnmatchcase(seen.name, name))
    if newer is not None:
        after = _ms(newer, "--newer")
        tests.append(lambda seen: seen.stat.mtime > after)
    if older is not None:
        before = _ms(older, "--older")
        tests.append(lambda seen: seen.stat.mtime < before)
    if larger is not None:
        above = parse_size(larger, "--larger")
        tests.append(lambda seen: seen.stat.data_length > above)
    if smaller is not None:
        below = parse_size(smaller, "--smaller")
        tests.append(lambda seen: seen.stat.data_length < below)
    if owner is not None:
        session = parse_session(owner, "--owner")
        tests.append(lambda seen: seen.stat.ephemeral_owner == session)
    if ephemeral:
        tests.append(lambda seen: seen.stat.ephemeral_owner != 0)
    data_tests = _data_tests(data, data_regex)
    acl_test = None if acl is None else _acl_test(acl)

    async def work(zk: Client, _caller: Caller) -> None:
        left_out = LeftOut()
        reading = patient(zk)
        found = _passing(walk_znodes(reading, path, left_out, depth), tests)
        if data_tests:
            found = _with_data(reading, found, data_tests, left_out)
        if acl_test is not None:
            found = _with_acl(reading, found, acl_test, left_out)
        async with aclosing(found):
            async for seen in found:
                say(json_line({"path": seen.path, "stat": stat_value(seen.stat)}) if json else seen.path)
        left_out.end()

    perform(context, work)


def _ms(text: str, option: str) -> int:
    return int(parse_age(text, option).astimezone(datetime.UTC).timestamp() * 1000)


def _data_tests(text: str | None, regex: str | None) -> list[DataTest]:
    tests: list[DataTest] = []
    if text is not None:
        part = text.encode("utf-8", "surrogateescape")
        tests.append(lambda data: part in data)
    if regex is not None:
        try:
            pattern = re.compile(regex.encode("utf-8", "surrogateescape"))
        except re.error as error:
            raise typer.BadParameter(
                f"{regex!r} is no regular expression: {error}", param_hint="--data-regex"
            ) from None
        tests.append(lambda data: pattern.search(data) is not None)
    return tests


def _acl_test(text: str) -> AclTest:
    scheme, _, rest = text.partition(":")
    identity, colon, letters = rest.rpartition(":")
    if not colon:
        identity, letters = rest, ""
    elif re.fullmatch("[cdrwa]+", letters) is None:
        # An id may have colons.
        identity, letters = rest, ""
    if not scheme:
        raise typer.BadParameter(f"{text!r} has no scheme", param_hint="--acl")
    wanted = Permission.from_letters(letters)

    def test(acl: tuple[Acl, ...]) -> bool:
        return any(
            entry.scheme == scheme and (not identity or entry.id == identity) and wanted & ~entry.permissions == 0
            for entry in acl
        )

    return test


async def _passing(znodes: AsyncGenerator[Seen, None], tests: list[Test]) -> AsyncGenerator[Seen, None]:
    async with aclosing(znodes):
        async for seen in znodes:
            if all(test(seen) for test in tests):
                yield seen


async def _with_data(
    zk: Znodes, znodes: AsyncGenerator[Seen, None], tests: list[DataTest], left_out: LeftOut
) -> AsyncGenerator[Seen, None]:
    async with aclosing(read_along(znodes, zk.get, left_out)) as read:
        async for seen, (data, _) in read:
            if all(test(data or b"") for test in tests):
                yield seen


async def _with_acl(
    zk: Znodes, znodes: AsyncGenerator[Seen, None], test: AclTest, left_out: LeftOut
) -> AsyncGenerator[Seen, None]:
    async with aclosing(read_along(znodes, zk.get_acl, left_out)) as read:
        async for seen, (acl, _) in read:
            if test(acl):
                yield seen
