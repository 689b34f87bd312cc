"""What a program can get wrong, and is told at once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from tests.client.scripted import ScriptedServers
from tests.client.scripted_client import client, well_behaved
from zab.client import Client, connect

TEXT: Any = "text"


async def in_transaction(zk: Client) -> None:
    async with zk.transaction() as transaction:
        transaction.set("/a", TEXT)


WRITES: list[Callable[[Client], Awaitable[object]]] = [
    lambda zk: zk.set("/a", TEXT),
    lambda zk: zk.create("/a", TEXT),
    lambda zk: zk.create2("/a", TEXT),
    lambda zk: zk.create("/a", TEXT, if_not_exists=True),
    in_transaction,
]


@pytest.mark.parametrize("write", WRITES)
async def test_text_is_no_data(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery, write: Callable[[Client], Awaitable[object]]
) -> None:
    async with client(ScriptedServers(nursery, well_behaved)) as zk:
        with pytest.raises(TypeError, match="the data of /a must be bytes or None, not str"):
            await write(zk)
        # Nothing was sent, and the connection goes on.
        assert await zk.create("/a", bytearray(b"x")) == "/a"


def test_asyncio_is_told_that_it_takes_trio() -> None:
    async def main() -> None:
        async with connect("127.0.0.1:1"):
            raise AssertionError("no client without trio")

    with pytest.raises(RuntimeError, match=r"zab\.client needs trio"):
        asyncio.run(main())
