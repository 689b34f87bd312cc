"""`zab export`: a subtree as lines of JSON on standard output, or as a directory.

`subtree_lines.py` and `subtree_directory.py` have the two forms.

The export is written while the tree is read, and is not a consistent snapshot. A znode that cannot be read in full ends
it with an error; `zab import` refuses what was written until then, since its end is missing.

Without a chroot, `/` is exported without `/zookeeper`, which belongs to the servers.
"""

from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Final

import typer

from zab.cli.progress import progress
from zab.cli.terminal import count_of, say
from zab.cli.znodes.caller import Caller, perform
from zab.cli.znodes.copying import Ephemerals, SkipOption, read_subtree
from zab.cli.znodes.options import PathArgument
from zab.cli.znodes.subtree_directory import DirectoryWriter
from zab.cli.znodes.subtree_lines import Entry, entry_line, first_line, last_line
from zab.cli.znodes.walking import patient
from zab.client import Client

__all__ = ["export_command", "servers_own"]

SERVERS_OWN: Final = "/zookeeper"


def servers_own(path: str, hosts: str) -> str | None:
    """The path within the subtree at `path` that belongs to the servers; None if there is none."""
    return SERVERS_OWN if path == "/" and "/" not in hosts else None


def export_command(
    context: typer.Context,
    path: PathArgument,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Write into this directory, which must be empty or absent."),
    ] = None,
    skip_ephemerals: SkipOption = False,
) -> None:
    """A line of JSON for each znode, which zab import reads again."""

    async def work(zk: Client, caller: Caller) -> None:
        writer = None if directory is None else DirectoryWriter(directory, path)
        count = 0
        is_begun = False
        ephemerals = Ephemerals(skip=skip_ephemerals)
        own = servers_own(path, caller.options.hosts)
        with progress("written", prints_lines=writer is None) as told:
            async with aclosing(read_subtree(patient(zk), path, left_out=own)) as found:
                async for source in found:
                    if writer is None and not is_begun:
                        # If the root does not exist, or may not be read, nothing is written.
                        say(first_line(path))
                        is_begun = True
                    if ephemerals.is_one(source):
                        continue
                    entry = Entry(source.path, source.data, source.acl)
                    if writer is None:
                        say(entry_line(entry))
                    else:
                        writer.write(entry)
                    count += 1
                    told.reach(count)
        if writer is None:
            say(last_line(count))
        else:
            writer.finish(count)
            say(f"{count_of(count, 'znode')} in {directory}")
        ephemerals.tell()

    perform(context, work)
