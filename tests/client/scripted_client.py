"""A client over servers that answer as a test says."""

from random import Random

from datatree.opcodes import OpCode
from tests.client.scripted import Peer, ScriptedServers
from zab.client import (
    Settings,
    connect,
)
from zab.jute.replies import data_reply, path_body, reply

HOSTS = "one:1,two:1,three:1"

STAT = bytes(68)


def client(servers: ScriptedServers, hosts: str = HOSTS, **options):
    settings = Settings(session_timeout_ms=9000, **options.pop("settings", {}))
    return connect(hosts, settings=settings, dial=servers.dial, random=Random(1), **options)


def answer(xid: int, opcode: int, body: bytes) -> bytes | None:
    """Data for get, the path for create, nothing for all else."""
    if opcode == OpCode.GET_DATA:
        return data_reply(xid, 5, b"data", STAT)
    if opcode == OpCode.CREATE2:
        return reply(xid, 5, 0, path_body(b"/a", STAT))
    if opcode == OpCode.SYNC:
        return reply(xid, 5, 0, path_body(b"/"))
    return None


async def well_behaved(peer: Peer) -> None:
    await peer.welcome()
    await peer.serve(answer)
