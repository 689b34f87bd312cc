"""What a client promises, on each of its faces: trio, asyncio, threads. Against three running members."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.client.faces import FACES, OnFace
from tests.rigs.certificates import Certificates, client_store_lines
from tests.rigs.in_process import members_here
from tests.rigs.zab_server import zab_over_tls
from zab.client import (
    BadArgumentsError,
    BadVersionError,
    ClientClosedError,
    EventType,
    Get,
    GetChildren,
    NodeExistsError,
    NoNodeError,
    NotConnectedError,
    Observer,
    SessionExpiredError,
    Settings,
    State,
    Tls,
    TlsError,
    WatchMode,
    ZabError,
    child_names,
    sync,
)
from zab.client import client as waiting_client
from zab.client import znodes as waiting_znodes
from zab.client.core import changes, state_changes, transaction, watcher
from zab.client.sync import client as blocking_client
from zab.client.sync import watching, znodes
from zab.testing.ensemble import Ensemble

every_face = pytest.mark.parametrize("backend", FACES, ids=lambda backend: backend.name)


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    with members_here(3, {"extendedTypesEnabled": "true"}) as running:
        yield running


@pytest.fixture
def hosts(ensemble: Ensemble, request: pytest.FixtureRequest) -> str:
    """A place of the test's own: every path is below it, and stays when the test is over."""
    ensemble.wait_until_serving()
    root = f"/{request.node.name.replace('[', '-').rstrip(']')}"
    with sync.connect(ensemble.hosts) as zk:
        zk.create(root)
    return ensemble.hosts + root


@every_face
def test_the_operations_are_there(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        assert await zk.create("/a", b"1") == "/a"
        path, stat = await zk.create2("/a/s-", b"", sequence=True, ephemeral=True)
        assert (path, stat.ephemeral_owner) == ("/a/s-0000000000", zk.session_id)
        with pytest.raises(NodeExistsError):
            await zk.create("/a")
        assert (await zk.set("/a", b"2", 0)).version == 1
        with pytest.raises(BadVersionError):
            await zk.set("/a", b"3", 0)
        data, stat = await zk.get("/a")
        assert (data, stat.version, stat.num_children) == (b"2", 1, 1)
        assert await zk.get_children("/a") == ["s-0000000000"]
        assert (await zk.get_children2("/a"))[1].num_children == 1
        assert await zk.get_all_children_number("/a") == 1
        assert await zk.get_ephemerals("/a") == ["/a/s-0000000000"]
        acl, stat = await zk.get_acl("/a")
        assert (await zk.set_acl("/a", acl, stat.aversion)).aversion == 1
        assert await zk.exists("/none") is None
        await zk.sync()
        assert (await zk.who_am_i())[0].scheme == "ip"
        assert b"server.1" in (await zk.get_config())[0]
        read = await zk.multi_read([Get("/a"), GetChildren("/a"), Get("/none")])
        assert (read[0][0], read[1]) == (b"2", ["s-0000000000"])
        assert isinstance(read[2], NoNodeError)
        await zk.ensure_path("/deep/er/est")
        await zk.ensure_path("/deep/er/est")
        await zk.create("/deep/other")
        assert await zk.delete_all("/deep") == 4
        assert await zk.delete_all("/deep") == 0
        with pytest.raises(NoNodeError):
            await zk.delete("/deep")
        with pytest.raises(TypeError, match="must be bytes or None, not str"):
            await zk.create("/text", "text")

    backend.run(hosts, body)


@every_face
def test_children_are_read_page_by_page(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        names = [f"{letter}-{number:04}" for letter in "ab" for number in range(120)] + ["\u00e4", "\ufb01"]
        await zk.create("/a")
        async with zk.transaction() as t:
            for name in names:
                t.create(f"/a/{name}")
        page = await zk.get_children_page("/a", count=3)
        assert page.names == names[:3]
        assert (page.has_more, page.stat.num_children) == (True, len(names))
        assert await zk.get_children_page("/a", after="b-0118", count=3) == (names[-3:], False, page.stat)
        assert (await zk.get_children_page("/a", after="a-0118", prefix="a-", count=5)).names == ["a-0119"]
        assert (await zk.get_children_page("/a", after="\ufb01")).names == []
        assert [name async for name in zk.iter_children("/a", page_count=40)] == names
        assert [name async for name in zk.iter_children("/a", prefix="b", after="b-0100")] == names[221:240]
        assert [name async for name in zk.with_chroot("/a").iter_children("/", prefix="\u00e4")] == ["\u00e4"]
        told = []
        async for name in zk.iter_children("/a", page_count=10):
            told.append(name)
            if name == "a-0095":
                # Before, within and after the pages that were read.
                await zk.create("/a/a-0000-new")
                await zk.delete("/a/a-0098")
                await zk.create("/a/zz")
        assert told == sorted({*names, "zz"} - {"a-0098"}) or told == sorted({*names, "zz"})
        with pytest.raises(BadArgumentsError, match="a page has one name at least"):
            await zk.get_children_page("/a", count=0)
        with pytest.raises(BadArgumentsError, match="surrogate"):
            await zk.get_children_page("/a", after="\udcff")
        with pytest.raises(NoNodeError):
            await anext(zk.iter_children("/none"))

    backend.run(hosts, body)


@every_face
def test_a_transaction_is_sent_when_its_block_is_left(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        async with zk.transaction() as t:
            created = t.create("/a", b"1")
            numbered = t.create("/a/n-", sequence=True)
            changed = t.set("/a", b"2", 0)
            with pytest.raises(RuntimeError, match="not committed"):
                _ = created.result
            assert len(t) == 3
        assert (created.result, numbered.result, changed.result.version) == ("/a", "/a/n-0000000000", 1)
        assert t.results == [created.result, numbered.result, changed.result]
        refused = zk.transaction()
        refused.delete("/a/n-0000000000")
        refused.check("/a", 7)
        with pytest.raises(BadVersionError) as caught:
            await refused.commit()
        assert caught.value.index == 1
        assert await zk.get_children("/a") == ["n-0000000000"]
        with pytest.raises(ZeroDivisionError):
            await left_by_an_error(zk)
        assert await zk.exists("/a")

    backend.run(hosts, body)


async def left_by_an_error(zk: Any) -> None:
    async with zk.transaction() as t:
        t.delete("/a")
        raise ZeroDivisionError


@every_face
def test_watchers_hear_in_order_and_end_with_the_client(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, other: Any, backend: OnFace) -> Any:
        await zk.create("/a")
        heard = zk.watcher()
        await zk.get("/a", watch=heard)
        await other.set("/a", b"1")
        event = await heard.receive()
        assert (event.type, event.path) == (EventType.DATA_CHANGED, "/a")
        assert heard.receive_nowait() is None
        async with zk.watch("/a", recursive=True) as events:

            async def listen() -> list[tuple[EventType, str]]:
                return [(await events.receive())[:2] for _ in range(2)]

            async def change() -> None:
                await other.create("/a/b")
                await other.delete("/a/b")

            seen, _ = await backend.together(listen, change)
            assert seen == [(EventType.CREATED, "/a/b"), (EventType.DELETED, "/a/b")]
        assert [event async for event in events] == []
        assert not await zk.check_watches("/a")
        await zk.add_watch("/a", heard, WatchMode.PERSISTENT)
        await zk.remove_watches("/a")
        assert (await heard.receive()).type is EventType.PERSISTENT_WATCH_REMOVED
        return heard

    heard = backend.run(hosts, body, count=2)
    with pytest.raises(ClientClosedError):
        heard.receive_nowait()


@every_face
def test_a_limit_of_time_ends_what_waits_and_nothing_else(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        heard = zk.watcher()
        async with zk.move_on_after(60) as outer:
            async with zk.move_on_after(0.02) as inner:
                await heard.receive()
                raise AssertionError("there is no event")
            assert (inner.is_over, outer.is_over) == (True, False)
            async with zk.move_on_after(None) as endless:
                await zk.create("/a")
        assert not outer.is_over
        assert not endless.is_over
        async with zk.move_on_after(0.02) as outer:
            async with zk.move_on_after(60) as inner:
                await zk.sleep(60)
            raise AssertionError("the outer time is over")
        assert (inner.is_over, outer.is_over) == (False, True)
        # What was waited for is there when somebody waits again.
        await zk.get("/a", watch=heard)
        await zk.set("/a", b"1")
        assert (await heard.receive()).path == "/a"

    backend.run(hosts, body)


@every_face
def test_many_callers_share_a_client(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        async def one() -> list[str]:
            return [await zk.create("/n-", b"x" * 100, sequence=True) for _ in range(10)]

        found = await backend.together(*(one for _ in range(20)))
        assert all(own == sorted(own) for own in found)
        assert sorted(path for own in found for path in own) == [f"/n-{number:010}" for number in range(200)]

    backend.run(hosts, body)


@every_face
def test_large_answers_and_requests_pass(backend: OnFace, hosts: str) -> None:
    """More than a socket takes at once, in both directions and from many callers."""
    large = Random(1).randbytes(900_000)

    async def body(zk: Any, backend: OnFace) -> None:
        async def one(name: str) -> None:
            await zk.create(f"/{name}", large)
            assert (await zk.get(f"/{name}"))[0] == large

        await backend.together(*(lambda name=name: one(name) for name in "abcdefgh"))

    backend.run(hosts, body, session_timeout_ms=30_000)


@every_face
def test_the_session_survives_its_server(backend: OnFace, hosts: str, ensemble: Ensemble) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        states = zk.states()
        assert await anext(states) is State.CONNECTED
        await zk.create("/mine", ephemeral=True)
        server = next(member for member in ensemble.members.values() if serves(member, zk.session_id))
        server.kill()
        try:
            assert [await anext(states) for _ in range(2)] == [State.CONNECTING, State.CONNECTED]
            assert (await zk.retrying().exists("/mine")).ephemeral_owner == zk.session_id
        finally:
            server.start()

    backend.run(hosts, body, session_timeout_ms=20_000)


def serves(member: Any, session_id: int) -> bool:
    """Whether this member has the connection of the session: it answers of itself alone."""
    from tests.rigs.zookeeper_server import four_letter_word

    return f"0x{session_id:x}" in four_letter_word(member.client_port, "cons")


@every_face
def test_leaving_the_block_closes_the_session(backend: OnFace, hosts: str) -> None:
    async def make(zk: Any, backend: OnFace) -> Any:
        await zk.create("/mine", ephemeral=True)
        return zk

    zk = backend.run(hosts, make)
    assert zk.state is State.CLOSED

    async def look(zk: Any, backend: OnFace) -> Any:
        return await zk.exists("/mine")

    assert backend.run(hosts, look) is None


@every_face
def test_what_the_block_raises_leaves_it_as_it_is(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        backend.run(hosts, body)


@every_face
def test_a_session_that_is_over_says_so(backend: OnFace, hosts: str) -> None:
    async def resume(zk: Any, backend: OnFace) -> None:
        raise AssertionError("entered")

    async def body(zk: Any, backend: OnFace) -> tuple[int, bytes]:
        return zk.session_id, zk.session_password

    over = backend.run(hosts, body)
    with pytest.raises(SessionExpiredError):
        backend.run(hosts, resume, resume=over)


@every_face
def test_nobody_listens(backend: OnFace) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        raise AssertionError("entered")

    with pytest.raises(NotConnectedError, match=r"[Rr]efused"):
        backend.run("127.0.0.1:1", body, settings=Settings(session_timeout_ms=1000, connect_wait_ms=200))


@every_face
def test_a_malformed_name_is_that_of_a_server_that_is_not_reached(backend: OnFace, hosts: str) -> None:
    malformed = "x" * 64

    async def body(zk: Any, backend: OnFace) -> bool:
        return await zk.exists("/") is not None

    with pytest.raises(NotConnectedError, match=f"{malformed}:1: .*label too long"):
        backend.run(f"{malformed}:1", body, settings=Settings(session_timeout_ms=1000, connect_wait_ms=200))
    # The order of the servers is the seed's: some begin with it.
    for seed in range(6):
        assert backend.run(f"{malformed}:1,{hosts}", body, random=Random(seed))


@every_face
def test_a_chroot_within_the_connections_own(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        await zk.ensure_path("/app/part")
        part = zk.with_chroot("/app").with_chroot("/part")
        start = zk.last_zxid
        async with part.watch("/", recursive=True) as events:
            assert await part.create("/x-", sequence=True) == "/x-0000000000"
            assert (await events.receive()).path == "/x-0000000000"
            await zk.set("/app/part", b"1")
            assert (await events.receive()).path == "/"
        assert (await part.get("/"))[0] == b"1"
        assert await zk.get_children("/app/part") == ["x-0000000000"]
        assert (await part.changes(start).receive()).path == "/x-0000000000"
        with pytest.raises(NoNodeError, match="/none"):
            await part.get("/none")
        with pytest.raises(ZabError, match="a path"):
            zk.with_chroot("app")

    backend.run(hosts, body)


@every_face
def test_the_feed_of_changes(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        await zk.sync()
        start = zk.last_zxid
        for name in "abc":
            await zk.create(f"/{name}", name.encode())
        feed = zk.changes(start)
        assert [(await feed.receive()).path for _ in range(2)] == ["/a", "/b"]
        again = zk.changes(feed.place)
        assert (await again.receive()).data == b"c"

    backend.run(hosts, body)


class Heard(Observer):
    def __init__(self) -> None:
        self.states: list[State] = []
        self.begun: list[str] = []
        self.requests: list[tuple[str, str | None]] = []
        self.lost: list[str] = []

    def state_changed(self, state: State) -> None:
        self.states.append(state)

    def server_lost(self, host: str, reason: str) -> None:
        self.lost.append(reason)

    def request_begun(self, name: str) -> None:
        self.begun.append(name)

    def request_ended(self, name: str, seconds: float, error: ZabError | None) -> None:
        assert seconds >= 0
        self.requests.append((name, None if error is None else type(error).__name__))


@every_face
def test_an_observer_hears_of_requests_and_states(backend: OnFace, hosts: str) -> None:
    heard = Heard()

    async def body(zk: Any, backend: OnFace) -> None:
        await zk.create("/a")
        with pytest.raises(NoNodeError):
            await zk.get("/none")

    backend.run(hosts, body, observer=heard)
    assert heard.begun == ["create2", "getData"]
    assert heard.requests == [("create2", None), ("getData", "NoNodeError")]
    assert heard.states == [State.CONNECTED, State.CLOSED]


# TLS, SASL, identities.


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(certificates: Certificates) -> Iterator[str]:
    stores = client_store_lines(certificates.member("localhost", name="faces"), "pem")
    with zab_over_tls({**stores, "ssl.clientAuth": "want"}) as (_, hosts):
        yield hosts


@every_face
def test_tls_with_large_answers(backend: OnFace, secured: str, certificates: Certificates) -> None:
    client = certificates.client(f"faces-{backend.name}")
    large = Random(2).randbytes(900_000)

    async def body(zk: Any, backend: OnFace) -> None:
        await zk.create(f"/{backend.name}", large)

        async def read() -> None:
            assert (await zk.get(f"/{backend.name}"))[0] == large

        await backend.together(*[read] * 8)

    backend.run(secured, body, tls=Tls(trust_store=str(client / "truststore.pem")), session_timeout_ms=30_000)


@every_face
def test_a_server_whom_nobody_vouches_for_is_refused(backend: OnFace, secured: str, tmp_path: Path) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        raise AssertionError("entered")

    stranger = Certificates(tmp_path).client("stranger")
    with pytest.raises(TlsError, match="no authority that this client trusts"):
        backend.run(secured, body, tls=Tls(trust_store=str(stranger / "truststore.pem")))


@every_face
def test_plain_bytes_to_a_port_of_tls_are_named(backend: OnFace, secured: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        raise AssertionError("entered")

    with pytest.raises(NotConnectedError, match="the server speaks TLS on this port"):
        backend.run(secured, body, settings=Settings(session_timeout_ms=2000))


@every_face
def test_tls_to_a_plain_port_is_named(backend: OnFace, ensemble: Ensemble) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        raise AssertionError("entered")

    with pytest.raises(NotConnectedError, match="as a port without TLS does"):
        backend.run(
            f"localhost:{ensemble.members[1].client_port}", body, tls=Tls(), settings=Settings(session_timeout_ms=2000)
        )


@every_face
def test_identities_are_shown(backend: OnFace, hosts: str) -> None:
    async def body(zk: Any, backend: OnFace) -> None:
        await zk.add_auth("digest", "second:word")
        assert {identity.user for identity in await zk.who_am_i() if identity.scheme == "digest"} == {"first", "second"}

    backend.run(hosts, body, auth=[("digest", "first:word")])


# Threads.


def test_a_blocking_client_may_be_closed_by_hand_and_twice(hosts: str) -> None:
    zk = sync.connect(hosts)
    zk.create("/a")
    zk.close()
    zk.close()
    assert zk.state is State.CLOSED
    with pytest.raises(ClientClosedError):
        zk.get("/a")


def test_a_blocking_client_leaves_no_thread(hosts: str) -> None:
    with sync.connect(hosts) as zk:
        zk.exists("/")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("zab-client")]


def test_closing_ends_the_wait_of_another_thread(hosts: str) -> None:
    zk = sync.connect(hosts)
    errors: list[BaseException] = []
    waits = threading.Event()

    def listen() -> None:
        heard = zk.watcher()
        waits.set()
        try:
            heard.receive()
        except ClientClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=listen)
    thread.start()
    waits.wait()
    zk.close()
    thread.join()
    assert len(errors) == 1


def test_only_what_waits_for_the_client_runs_in_a_thread(hosts: str) -> None:
    class Elsewhere:
        def __await__(self) -> Iterator[None]:
            yield

    async def elsewhere() -> None:
        await Elsewhere()

    with sync.connect(hosts) as zk:
        with pytest.raises(RuntimeError, match="awaited something else"):
            zk._backend.run(elsewhere())
        assert zk.exists("/") is not None


PAIRS = [
    (waiting_znodes.Znodes, znodes.Znodes),
    (waiting_client.Client, blocking_client.Client),
    (watcher.Watcher, watching.Watcher),
    (changes.Changes, watching.Changes),
    (child_names.ChildNames, watching.ChildNames),
    (state_changes.StateChanges, watching.StateChanges),
    (transaction.Transaction, watching.Transaction),
]
OWN = {
    # What only recipes, which are coroutines, and the client itself use.
    *(
        "operations",
        "perform",
        "perform_each",
        "sending",
        "waiter",
        "undertake",
        "stir",
        "release",
        "nonce",
        "deliver",
        "end",
        "push",
        "up_to",
    ),
}
BLOCKING_ONLY = {"close", "results", "waiting", "run", "alone"}


@pytest.mark.parametrize(("waiting", "blocking"), PAIRS, ids=lambda kind: kind.__name__)
def test_what_blocks_has_the_names_and_arguments_of_what_is_awaited(waiting: type, blocking: type) -> None:
    def public(kind: type) -> dict[str, Any]:
        return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}

    ours, theirs = public(blocking), public(waiting)
    assert theirs.keys() - OWN - ours.keys() == set()
    assert ours.keys() - theirs.keys() <= BLOCKING_ONLY
    for name in theirs.keys() - OWN:
        if callable(theirs[name]):
            expected = list(inspect.signature(theirs[name]).parameters.values())
            found = list(inspect.signature(ours[name]).parameters.values())
            assert [(p.name, p.kind, p.default) for p in found] == [(p.name, p.kind, p.default) for p in expected], name


@pytest.mark.parametrize(("waiting", "blocking"), PAIRS, ids=lambda kind: kind.__name__)
def test_help_tells_of_what_blocks_as_of_what_is_awaited(waiting: type, blocking: type) -> None:
    for name in (name for name in vars(waiting).keys() - OWN if not name.startswith("_")):
        told = inspect.getdoc(getattr(blocking, name)) or ""
        assert bool(told) or not inspect.getdoc(getattr(waiting, name)), name
        assert not {"async", "await"} & set(told.replace("`", " ").split()), name


def test_types_of_what_blocks_are_those_that_it_gives(hosts: str) -> None:
    with sync.connect(hosts) as zk:
        zk.create("/a", ephemeral=True)
        assert inspect.signature(zk.watcher).return_annotation is type(zk.watcher())
        assert inspect.signature(zk.states).return_annotation is type(zk.states())
        assert type(zk.retrying()) is sync.Znodes
        assert list(zk.iter_children("/")) == ["a"]
