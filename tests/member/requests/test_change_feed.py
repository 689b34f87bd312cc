"""The feed of changes on whole members: what it tells, to whom, in which order, and where it ends."""

from collections.abc import Iterable
from random import Random

import pytest

from datatree.acl import digest_identity
from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.past_acls import PastAcls
from datatree.requests import OPEN_ACL, AddAuth, Create, GetChanges, Multi, NoBody, PathVersion, SetAcl, SetData
from datatree.txn_changes import ACL_CHANGED, CREATED, DATA_CHANGED, DELETED, WHOLE
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import TICK_MS, Ensemble, Server
from zab.jute.change_pages import ChangePage, PageStatus
from zab.member.requests import change_feed as module
from zab.member.storage.change_rows import is_within
from zab.member.storage.events import ChangesRead, LookBackSlice, ReadChanges

BOB = (31, *digest_identity(b"bob:pw"))
EVE = (31, *digest_identity(b"eve:pw"))
ROOT_DIGEST = digest_identity(b"root:secret")[1].decode()
GIVEN, OLDER, BEYOND, ELSEWHERE = PageStatus
SMALL = {"maxBatchBytes": 1000, "maxRecentBytes": 1000}


def history_id_of(server: Server) -> bytes:
    return module.history_id_of(server.member.peer.lineage)


class Feed:
    """A client that follows the feed on its connection, one page after the other."""

    def __init__(self, ensemble: Ensemble, client: Client, place=(0, WHOLE), prefix=b"/", *, history_id=b"", wait_ms=0):
        self.ensemble = ensemble
        self.client = client
        self.place = place
        self.prefix = prefix
        self.history_id = history_id
        self.wait_ms = wait_ms
        self.bytes_max = 1 << 20
        self.rows = []
        self.pages = 0
        self.end = 0
        self._xid = -16

    def request(self, xid=None):
        if xid is None:
            self._xid -= 1
            xid = self._xid
        body = GetChanges(*self.place, self.history_id, self.prefix, self.bytes_max, self.wait_ms)
        return self.client.request(OpCode.GET_CHANGES, body.encode(), xid)

    def ask(self):
        self.client.say(self.request())
        self.ensemble.settle()

    def take(self):
        """The page that has come, if one has."""
        ours = [item for item in self.client.received if item[0] == "reply" and item[1] <= -16]
        self.client.received = [item for item in self.client.received if item not in ours]
        if not ours:
            return None
        ((_, _, zxid, error, page),) = ours
        assert error == ErrorCode.OK, error
        assert isinstance(page, ChangePage)
        self.end = zxid
        if page.status is GIVEN:
            assert (page.zxid, page.part) >= self.place
            assert page.zxid <= zxid
            assert all((row[0], row[1]) > self.place for row in page.rows)
            self.place = page.zxid, page.part
            self.rows += page.rows
            self.pages += 1
        return page

    def page(self):
        self.ask()
        return self.take()

    def drain(self):
        """Everything there is to tell: (kind, path, data) of each change."""
        while True:
            page = self.page()
            assert page is not None
            assert page.status is GIVEN, page
            if not page.rows and page.zxid == self.end:
                rows, self.rows = self.rows, []
                return [(row[4], row[5], row[6]) for row in rows]


def paths(told: Iterable) -> list[bytes]:
    return [path for _, path, _ in told]


def multi(client: Client, *parts) -> bytes:
    return client.request(OpCode.MULTI, Multi(parts).encode())


def authenticate(ensemble: Ensemble, client: Client, user: bytes) -> None:
    ((_, error, _),) = ensemble.do(client, client.request(OpCode.AUTH, AddAuth(b"digest", user).encode(), -4))
    assert error == ErrorCode.OK


def applied(ensemble: Ensemble) -> int:
    return ensemble.servers[1].member.applied


@pytest.fixture(params=["leader", "follower"])
def served(request) -> tuple[Ensemble, Client]:
    ensemble = Ensemble(3)
    return ensemble, ensemble.session(getattr(ensemble, request.param))


# -------------------------------------------------------------------------------------------------------- what it tells


def test_every_change_is_told_once_in_order(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    other = ensemble.session(ensemble.follower)
    ensemble.do(client, client.create(b"/a", b"1"), client.set(b"/a", b"2"), client.create(b"/a/b"))
    ensemble.do(other, other.create(b"/own", b"o", flags=1), other.create(b"/seq-", flags=3))
    ensemble.do(client, client.request(OpCode.SET_ACL, SetAcl(b"/a/b", OPEN_ACL, -1).encode()))
    ensemble.do(
        client,
        multi(
            client,
            (OpCode.CHECK, PathVersion(b"/a", 1)),
            (OpCode.SET_DATA, SetData(b"/a", None, 1)),
            (OpCode.DELETE, PathVersion(b"/a/b", -1)),
        ),
    )
    ensemble.do(other, other.request(OpCode.CLOSE_SESSION, NoBody().encode()))
    feed = Feed(ensemble, client)
    page = feed.page()
    assert page is not None
    assert [row[4:] for row in page.rows] == [
        (CREATED, b"/a", b"1", 0, 0),
        (DATA_CHANGED, b"/a", b"2", 1, 0),
        (CREATED, b"/a/b", b"", 0, 0),
        (CREATED, b"/own", b"o", 0, other.response.session_id),
        (CREATED, b"/seq-0000000002", b"", 0, other.response.session_id),
        (ACL_CHANGED, b"/a/b", None, 1, 0),
        (DATA_CHANGED, b"/a", None, 2, 0),
        (DELETED, b"/a/b", None, -1, 0),
        (DELETED, b"/own", None, -1, 0),
        (DELETED, b"/seq-0000000002", None, -1, 0),
    ]
    assert [row[1] for row in page.rows[-4:]] == [1, 2, 0, 1]
    zxids = [row[0] for row in page.rows]
    assert zxids == sorted(zxids)
    assert (zxids[6], zxids[8]) == (zxids[7], zxids[9])
    assert {row[3] for row in page.rows[:3]} == {client.response.session_id}
    assert (page.zxid, page.part, page.history_id) == (applied(ensemble), WHOLE, history_id_of(ensemble.leader))
    assert feed.page().rows == []


def test_refused_writes_are_no_changes(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    replies = ensemble.do(
        client,
        client.set(b"/none", b"x"),
        client.delete(b"/none"),
        client.create(b"/"),
        multi(client, (OpCode.CREATE, Create(b"/x", b"", OPEN_ACL, 0)), (OpCode.CHECK, PathVersion(b"/none", -1))),
    )
    assert [error for _, error, _ in replies][:2] == [ErrorCode.NONODE, ErrorCode.NONODE]
    assert Feed(ensemble, client).drain() == []


def test_only_what_is_behind_the_place_is_told(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    ensemble.do(client, client.create(b"/a"))
    since = applied(ensemble)
    ensemble.do(client, client.create(b"/b"), client.create(b"/c"))
    assert paths(Feed(ensemble, client, (since, WHOLE)).drain()) == [b"/b", b"/c"]
    assert paths(Feed(ensemble, client, (since + 1, WHOLE)).drain()) == [b"/c"]
    assert paths(Feed(ensemble, client, (since + 1, 0)).drain()) == [b"/c"]
    assert paths(Feed(ensemble, client, (since + 1, -1)).drain()) == [b"/b", b"/c"]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        (b"/", [b"/app", b"/app/a", b"/app/a/b", b"/apple", b"/b"]),
        (b"", [b"/app", b"/app/a", b"/app/a/b", b"/apple", b"/b"]),
        (b"/app", [b"/app", b"/app/a", b"/app/a/b"]),
        (b"/app/a", [b"/app/a", b"/app/a/b"]),
        (b"/none", []),
    ],
)
def test_a_prefix_is_a_znode_and_what_is_below_it(served, prefix: bytes, expected: list[bytes]) -> None:
    ensemble, client = served
    ensemble.do(client, *[client.create(path) for path in (b"/app", b"/app/a", b"/app/a/b", b"/apple", b"/b")])
    feed = Feed(ensemble, client, prefix=prefix)
    assert paths(feed.drain()) == expected
    assert feed.place == (applied(ensemble), WHOLE)


def test_within_a_prefix_means_whole_names() -> None:
    assert [is_within(path, b"/a") for path in (b"/a", b"/a/b", b"/ab", b"/", b"")] == [True, True, False, False, False]
    assert all(is_within(path, b"/") for path in (b"/", b"/a"))


# ------------------------------------------------------------------------------------------------------------- waiting


def test_a_request_at_the_end_waits_for_the_next_change(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    feed = Feed(ensemble, client, (applied(ensemble), WHOLE), wait_ms=8000)
    feed.ask()
    assert feed.take() is None
    writer = ensemble.session(ensemble.leader)
    ensemble.do(writer, writer.create(b"/a"))
    assert paths([row[4:7] for row in feed.take().rows]) == [b"/a"]


def test_what_waits_is_in_nobodys_way_and_keeps_no_order() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.follower)
    feed = Feed(ensemble, client, (applied(ensemble), WHOLE), wait_ms=8000)
    feed.ask()
    replies = ensemble.do(client, client.exists(b"/"), client.create(b"/a"), client.get(b"/a"), client.sync())
    ours = [(xid, error) for xid, error, _ in replies if xid > 0]
    assert ours == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert [xid for xid, _, _ in replies if xid < 0] == [-17]
    assert ensemble.follower.member.processor.waiting.outstanding_count == 0


def test_changes_elsewhere_do_not_end_the_wait_but_move_the_place() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    feed = Feed(ensemble, client, (applied(ensemble), WHOLE), b"/app", wait_ms=3000)
    feed.ask()
    ensemble.do(client, client.create(b"/other"))
    assert feed.take() is None
    ensemble.advance(2900)
    assert feed.take() is None
    ensemble.advance(200)
    page = feed.take()
    assert (page.rows, page.zxid, page.part) == ([], applied(ensemble), WHOLE)


def test_no_wait_is_longer_than_the_limit() -> None:
    ensemble = Ensemble(1, maxChangesWaitMs=1500)
    client = ensemble.session()
    feed = Feed(ensemble, client, (applied(ensemble), WHOLE), wait_ms=1 << 30)
    feed.ask()
    ensemble.advance(1400)
    assert feed.take() is None
    ensemble.advance(200)
    assert feed.take().rows == []


def test_a_wait_below_zero_is_none() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    assert Feed(ensemble, client, (applied(ensemble), WHOLE), wait_ms=-5).page().rows == []


def test_what_is_not_committed_is_not_told() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    server = ensemble.servers[1]
    other = Feed(ensemble, ensemble.session(), (applied(ensemble), WHOLE))
    feed = Feed(ensemble, client, (applied(ensemble), WHOLE), wait_ms=60_000)
    feed.ask()
    server.durable_held = True
    client.say(client.create(b"/a"))
    ensemble.settle()
    assert server.member.peer.history.last[0] > server.member.applied
    assert feed.take() is None
    assert other.page().rows == []
    ensemble.release(server)
    ensemble.settle()
    assert [row[5] for row in feed.take().rows] == [b"/a"]


def test_a_follower_tells_nothing_that_it_has_not_applied() -> None:
    ensemble = Ensemble(3)
    follower = ensemble.follower
    client, writer = ensemble.session(follower), ensemble.session(ensemble.leader)
    feed = Feed(ensemble, client, (applied(ensemble), WHOLE))
    follower.durable_held = True
    ensemble.do(writer, writer.create(b"/a"))
    assert ensemble.leader.member.applied > follower.member.applied
    assert feed.page().rows == []
    ensemble.release(follower)
    ensemble.settle()
    assert [row[5] for row in feed.page().rows] == [b"/a"]


# --------------------------------------------------------------------------------------------------------------- pages


def fill(ensemble: Ensemble, client: Client, count: int, size: int = 100) -> list[bytes]:
    """Some batches of creates below /app."""
    names = [b"/app/%04d" % number for number in range(count)]
    for start in range(0, count, 10):
        ensemble.do(client, *[client.create(name, bytes(size)) for name in names[start : start + 10]])
    return names


def filled(count: int, **lines: object) -> tuple[Ensemble, Client, list[bytes]]:
    """An ensemble with /app and so many znodes, the client that wrote them, and their names."""
    ensemble = Ensemble(1, **lines)
    client = ensemble.session()
    ensemble.do(client, client.create(b"/app"))
    return ensemble, client, fill(ensemble, client, count)


@pytest.mark.parametrize("bytes_max", [1, 300, 5000])
def test_pages_are_bounded_and_together_everything(bytes_max: int) -> None:
    ensemble, client, names = filled(60)
    feed = Feed(ensemble, client)
    feed.bytes_max = bytes_max
    assert paths(feed.drain()) == [b"/app", *names]
    row_bytes = 160
    assert feed.pages >= 61 * row_bytes // max(bytes_max, 2 * row_bytes)


def test_no_page_is_larger_than_the_limit_and_one_change() -> None:
    ensemble = Ensemble(1, maxChangesPageBytes=1000)
    client = ensemble.session()
    ensemble.do(client, client.create(b"/app"))
    fill(ensemble, client, 40)
    feed = Feed(ensemble, client, (applied(ensemble) - 40, WHOLE))
    client.raw = b""
    feed.ask()
    assert 800 < len(client.raw) <= 1000 + 100
    assert len(feed.take().rows) > 1


def test_a_multi_may_be_cut_and_goes_on_behind_its_part() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    parts = [(OpCode.CREATE, Create(b"/m%d" % number, b"", OPEN_ACL, 0)) for number in range(5)]
    ensemble.do(client, multi(client, *parts), client.create(b"/after"))
    feed = Feed(ensemble, client)
    feed.bytes_max = 1
    places = []
    while feed.place != (applied(ensemble), WHOLE):
        if feed.page().rows:
            places.append(feed.place)
    zxid = feed.rows[0][0]
    assert places == [*[(zxid, part) for part in range(4)], (zxid, 4), (zxid + 1, WHOLE)]
    assert [row[5] for row in feed.rows] == [b"/m0", b"/m1", b"/m2", b"/m3", b"/m4", b"/after"]
    # The last transaction of all is the one that is resumed in.
    ensemble.do(client, multi(client, *[(OpCode.DELETE, PathVersion(b"/m%d" % n, -1)) for n in range(5)]))
    assert paths(Feed(ensemble, client, (applied(ensemble), 2)).drain()) == [b"/m3", b"/m4"]
    assert paths(Feed(ensemble, client, (applied(ensemble), 4)).drain()) == []


# ---------------------------------------------------------------------------------------------------- where it reads it


def test_what_is_not_in_memory_any_more_comes_from_the_files() -> None:
    ensemble, client, names = filled(60, **SMALL)
    server = ensemble.servers[1]
    assert server.member.peer.history.base[0] > 0
    feed = Feed(ensemble, client)
    feed.bytes_max = 700
    assert paths(feed.drain()) == [b"/app", *names]
    assert server.reads
    assert all(not read.batches for read in server.reads)
    assert max(read.upto for read in server.reads) <= applied(ensemble)


def test_long_stretches_of_memory_are_decoded_by_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INLINE_BYTES_MAX", 500)
    ensemble, client, names = filled(60)
    feed = Feed(ensemble, client)
    assert paths(feed.drain()) == [b"/app", *names]
    server = ensemble.servers[1]
    assert server.reads
    assert all(read.batches for read in server.reads)


def test_a_place_that_nothing_has_is_refused_before_long_stretches_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INLINE_BYTES_MAX", 500)
    ensemble, client, _ = filled(60)
    assert Feed(ensemble, client, (7, WHOLE)).page().status is ELSEWHERE


def test_one_read_is_under_way_at_a_time_and_the_others_wait_their_turn() -> None:
    ensemble, _, names = filled(30, **SMALL)
    server = ensemble.servers[1]
    feeds = [Feed(ensemble, ensemble.session()) for _ in range(3)]
    server.reads_held = True
    for feed in feeds:
        feed.ask()
    assert len(server.reads) == 1
    for count in (1, 2, 3):
        assert len(server.reads) == count
        assert [feed.take() is not None for feed in feeds].count(True) == (1 if count > 1 else 0)
        server.answer_read()
        ensemble.settle()
    server.reads_held = False
    for feed in feeds:
        feed.take()
        assert paths(feed.drain()) == [b"/app", *names]


@pytest.mark.parametrize("wait_ms", [37, 137, 263, 411])
def test_a_wait_ends_in_its_own_turn_although_nothing_else_is_due(wait_ms: int) -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    feed = Feed(ensemble, client, (applied(ensemble), WHOLE), wait_ms=wait_ms)
    feed.ask()
    ensemble.settle()
    began = ensemble.now
    server = ensemble.servers[1]
    changes = server.member.processor.change_feed
    assert changes.next_deadline == began + wait_ms
    ensemble.now = began + wait_ms
    server.turn.take()
    assert changes.next_deadline is None
    assert server.member.next_deadline() > ensemble.now


def test_whoever_leaves_while_it_is_read_for_leaves_nothing_behind() -> None:
    ensemble, writer, _ = filled(30, **SMALL)
    server = ensemble.servers[1]
    feeds = [Feed(ensemble, ensemble.session(), wait_ms=60_000) for _ in range(3)]
    feeds[2].place = applied(ensemble), WHOLE
    server.reads_held = True
    for feed in feeds:
        feed.ask()
    for feed in feeds:
        feed.client.close()
    ensemble.settle()
    changes = server.member.processor.change_feed
    assert not changes.asked
    assert not changes.ready
    assert changes.next_deadline is None
    server.answer_read()
    ensemble.settle()
    assert len(server.reads) == 1
    last = Feed(ensemble, writer)
    last.ask()
    assert len(server.reads) == 2


def test_a_log_that_cannot_be_read_is_an_error_of_this_request_alone() -> None:
    ensemble, client, _ = filled(30, **SMALL)
    server = ensemble.servers[1]
    server.reads_held = True
    feed = Feed(ensemble, client)
    feed.ask()
    server.answers.append(ChangesRead(GIVEN, is_damaged=True))
    ensemble.settle()
    assert client.replies() == [(-17, ErrorCode.DATAINCONSISTENCY, None)]
    assert not client.is_closed


# ------------------------------------------------------------------------------------------------ places that are none


def test_a_place_older_than_the_log_is_refused_with_the_oldest() -> None:
    ensemble, client, names = filled(60, **SMALL)
    server = ensemble.servers[1]
    server.forget_oldest(4)
    oldest = server.logged[0].first - 1
    page = Feed(ensemble, client, (oldest - 1, WHOLE)).page()
    assert (page.status, page.oldest, page.rows) == (OLDER, oldest, [])
    kept = Feed(ensemble, client, (oldest, WHOLE)).drain()
    assert paths(kept) == names[-len(kept) :]
    assert len(kept) > 20


def test_a_place_behind_the_end_is_refused_with_the_end() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    page = Feed(ensemble, client, (applied(ensemble) + 1, WHOLE), wait_ms=1000).page()
    assert (page.status, page.zxid, page.rows) == (BEYOND, applied(ensemble), [])


def test_another_lineage_and_a_zxid_that_nothing_has_are_refused() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.leader)
    ensemble.do(client, client.create(b"/a"))
    history_id = history_id_of(ensemble.leader)
    end = applied(ensemble)
    assert Feed(ensemble, client, (end, WHOLE), history_id=bytes(16)).page().status is ELSEWHERE
    assert Feed(ensemble, client, (end, WHOLE), history_id=history_id).page().status is GIVEN
    # A new leader: the counters of the old epoch end where it ended.
    ensemble.cut = {ensemble.leader.sid}
    old = ensemble.leader
    for link in list(ensemble.links):
        ensemble.break_link(link)
    ensemble.advance(60_000)
    server = next(s for s in ensemble.others(old) if s.member.serving)
    client = ensemble.session(server)
    ensemble.do(client, client.create(b"/b"))
    assert server.member.applied >> 32 > end >> 32
    assert Feed(ensemble, client, (end + 50, WHOLE)).page().status is ELSEWHERE
    assert Feed(ensemble, client, (end + 50, 0)).page().status is ELSEWHERE
    assert Feed(ensemble, client, ((end >> 32) + 1 << 32, WHOLE)).page().status is ELSEWHERE
    assert b"/b" in paths(Feed(ensemble, client, (end, WHOLE)).drain())


def test_a_place_in_a_batch_of_another_epoch_is_found_from_its_first_transaction() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    first = ensemble.servers[1].logged[0].first
    assert first & 0xFFFFFFFF == 1
    ensemble.do(client, client.create(b"/a"))
    for place in ((first, 0), (first, WHOLE)):
        assert paths(Feed(ensemble, client, place).drain()) == [b"/a"]


def test_a_feed_goes_on_on_another_member_where_it_stopped() -> None:
    ensemble = Ensemble(3)
    writer = ensemble.session(ensemble.leader)
    told: list = []
    place = (0, WHOLE)
    created = []
    for number in range(9):
        names = [b"/%d-%d" % (number, each) for each in range(7)]
        ensemble.do(writer, *[writer.create(name) for name in names])
        created += names
        server = ensemble.servers[number % 3 + 1]
        feed = Feed(ensemble, ensemble.session(server), place, history_id=history_id_of(server))
        feed.bytes_max = 250
        feed.page()
        told += [row[5] for row in feed.rows]
        place = feed.place
    told += paths(Feed(ensemble, writer, place).drain())
    assert told == created


# ---------------------------------------------------------------------------------------------------- who may see what


@pytest.fixture
def guarded() -> Ensemble:
    return Ensemble(1, DigestAuthenticationProvider__superDigest=ROOT_DIGEST)


def users(ensemble: Ensemble) -> tuple[Client, Client, Client]:
    """Nobody, bob, and the superuser."""
    nobody, bob, root = (ensemble.session() for _ in range(3))
    authenticate(ensemble, bob, b"bob:pw")
    authenticate(ensemble, root, b"root:secret")
    return nobody, bob, root


def told_to(ensemble: Ensemble, clients: Iterable[Client], since: int = 0) -> list[list[bytes]]:
    return [paths(Feed(ensemble, client, (since, WHOLE)).drain()) for client in clients]


def test_a_change_is_told_to_whoever_may_read_the_znode(guarded: Ensemble) -> None:
    nobody, bob, root = users(guarded)
    guarded.do(bob, bob.create(b"/open"), bob.create(b"/bob", b"secret", acl=(BOB,)), bob.set(b"/bob", b"more"))
    every = [b"/open", b"/bob", b"/bob"]
    assert told_to(guarded, (nobody, bob, root)) == [[b"/open"], every, every]


def test_list_without_the_right_to_read_is_not_told() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    ensemble.do(client, client.create(b"/w", acl=((30, b"world", b"anyone"),)))
    assert Feed(ensemble, client).drain() == []


def test_a_znode_that_is_gone_is_guarded_by_the_list_that_it_had(guarded: Ensemble) -> None:
    nobody, bob, root = users(guarded)
    guarded.do(bob, bob.create(b"/bob", b"secret", acl=(BOB,)), bob.set(b"/bob", b"more"), bob.delete(b"/bob"))
    guarded.do(bob, bob.create(b"/open"), bob.delete(b"/open"))
    every = [b"/bob", b"/bob", b"/bob", b"/open", b"/open"]
    assert told_to(guarded, (nobody, bob, root)) == [[b"/open", b"/open"], every, every]
    # The path comes back open: what it was before stays with those who could read that.
    since = applied(guarded)
    guarded.do(nobody, nobody.create(b"/bob", b"open now"))
    assert told_to(guarded, (nobody,)) == [[b"/open", b"/open", b"/bob"]]
    assert told_to(guarded, (nobody, bob), since) == [[b"/bob"], [b"/bob"]]


def test_who_loses_the_right_is_not_told_what_was_before_and_who_gains_it_neither(guarded: Ensemble) -> None:
    nobody, bob, root = users(guarded)
    guarded.do(bob, bob.create(b"/a", b"open"))
    guarded.do(bob, bob.request(OpCode.SET_ACL, SetAcl(b"/a", (BOB,), -1).encode()), bob.set(b"/a", b"secret"))
    assert told_to(guarded, (nobody, bob)) == [[], [b"/a"] * 3]
    guarded.do(bob, bob.request(OpCode.SET_ACL, SetAcl(b"/a", OPEN_ACL, -1).encode()), bob.set(b"/a", b"open again"))
    feed = Feed(guarded, nobody)
    assert feed.drain() == [(DATA_CHANGED, b"/a", b"open again")]
    assert told_to(guarded, (bob, root)) == [[b"/a"] * 5] * 2


def test_ephemerals_of_a_closed_session_stay_guarded(guarded: Ensemble) -> None:
    nobody, bob, _ = users(guarded)
    authenticate(guarded, (owner := guarded.session()), b"bob:pw")
    guarded.do(owner, owner.create(b"/eph", b"s", flags=1, acl=(BOB,)), owner.create(b"/eph2", b"s", flags=1))
    guarded.do(owner, owner.request(OpCode.CLOSE_SESSION))
    assert told_to(guarded, (nobody, bob)) == [[b"/eph2"] * 2, [b"/eph", b"/eph2"] * 2]


def test_nobody_is_told_what_the_list_itself_says(guarded: Ensemble) -> None:
    _, bob, _ = users(guarded)
    guarded.do(bob, bob.create(b"/a"), bob.request(OpCode.SET_ACL, SetAcl(b"/a", (BOB,), -1).encode()))
    bob.raw = b""
    Feed(guarded, bob).page()
    assert BOB[2] not in bob.raw


def test_from_before_the_lists_are_known_only_the_superuser_is_told(guarded: Ensemble) -> None:
    nobody, bob, root = users(guarded)
    guarded.do(bob, bob.create(b"/a"), bob.create(b"/b"))
    tree = guarded.servers[1].member.tree
    tree.past_acls.complete_from = applied(guarded) - 1
    guarded.servers[1].looked_back = [PastAcls(applied(guarded) - 1)]
    for client in (nobody, bob):
        page = Feed(guarded, client).page()
        assert (page.status, page.oldest) == (OLDER, applied(guarded) - 1)
        assert paths(Feed(guarded, client, (page.oldest, WHOLE)).drain()) == [b"/b"]
        assert Feed(guarded, client, (page.oldest, 0)).page().status is OLDER
    assert paths(Feed(guarded, root).drain()) == [b"/a", b"/b"]


def test_the_files_are_looked_at_once_for_what_is_older(guarded: Ensemble) -> None:
    nobody, bob, _ = users(guarded)
    guarded.do(bob, bob.create(b"/a"), bob.create(b"/bob", acl=(BOB,)), bob.delete(b"/bob"))
    server = guarded.servers[1]
    end = applied(guarded)
    known = server.member.tree.past_acls
    # As after a start from a snapshot at the end.
    past = PastAcls(end)
    past.count_max = 77
    server.member.tree.past_acls = past
    found = PastAcls(0)
    found.ended(b"/bob", end, (BOB,))
    server.looked_back = [None, None, found]
    feeds = [Feed(guarded, guarded.session()), Feed(guarded, guarded.session())]
    for feed in feeds:
        feed.wait_ms = 1000
        feed.client.say(feed.request())
    guarded.settle()
    assert [read for read in server.reads if isinstance(read, LookBackSlice)] == [LookBackSlice(end, 77)] * 3
    assert [[row[5] for row in feed.take().rows] for feed in feeds] == [[b"/a"]] * 2
    assert paths(Feed(guarded, bob).drain()) == [b"/a", b"/bob", b"/bob"]
    assert past.complete_from == 0
    assert list(past.since(b"/bob", 1)) == list(known.since(b"/bob", 1))
    # What cannot be found is not looked for again.
    past.complete_from = end
    assert Feed(guarded, nobody).page().status is OLDER
    assert len([read for read in server.reads if isinstance(read, LookBackSlice)]) == 3


def test_looking_back_takes_turns_with_other_reads_and_outlives_who_asked() -> None:
    ensemble = Ensemble(1, DigestAuthenticationProvider__superDigest=ROOT_DIGEST, **SMALL)
    server = ensemble.servers[1]
    client, root = ensemble.session(), ensemble.session()
    authenticate(ensemble, root, b"root:secret")
    ensemble.do(client, client.create(b"/app"))
    names = fill(ensemble, client, 30)
    server.member.tree.past_acls = past = PastAcls(applied(ensemble))
    server.looked_back = [None, None, PastAcls(0)]
    server.reads_held = True
    first, reader = Feed(ensemble, ensemble.session()), Feed(ensemble, root)
    first.ask()
    root.say(reader.request() + reader.request())
    ensemble.settle()
    kinds = []
    for _ in range(4):
        kinds.append(type(server.reads[-1]))
        server.answer_read()
        ensemble.settle()
    assert kinds == [LookBackSlice, ReadChanges, LookBackSlice, ReadChanges]
    first.client.close()
    root.close()
    ensemble.settle()
    server.answer_read()
    ensemble.settle()
    assert past.complete_from == 0
    assert not server.member.processor.change_feed.asked
    server.reads_held = False
    assert paths(Feed(ensemble, client).drain()) == [b"/app", *names]


def test_lists_that_are_forgotten_while_it_is_looked_back_make_that_useless(guarded: Ensemble) -> None:
    nobody, _, _ = users(guarded)
    guarded.do(nobody, nobody.create(b"/a"), nobody.create(b"/b"))
    server = guarded.servers[1]
    server.member.tree.past_acls = past = PastAcls(applied(guarded) - 1)
    server.looked_back = [None, PastAcls(0)]
    server.reads_held = True
    feed = Feed(guarded, nobody)
    feed.ask()
    server.answer_read()
    past.complete_from = applied(guarded)
    guarded.settle()
    server.answer_read()
    guarded.settle()
    assert feed.take().status is OLDER
    assert past.complete_from == applied(guarded)
    assert {read.upto for read in server.reads} == {applied(guarded) - 1}


def test_lists_forgotten_while_it_is_read_are_noticed() -> None:
    ensemble, client, _ = filled(30, **SMALL)
    server = ensemble.servers[1]
    server.reads_held = True
    feed = Feed(ensemble, client)
    feed.ask()
    server.member.tree.past_acls.complete_from = applied(ensemble)
    server.looked_back = [PastAcls(applied(ensemble))]
    server.answer_read()
    ensemble.settle()
    assert isinstance(server.reads[-1], LookBackSlice)
    assert feed.take() is None
    server.answer_read()
    ensemble.settle()
    assert feed.take().status is OLDER


def test_the_limit_on_past_lists_is_that_of_the_configuration() -> None:
    ensemble = Ensemble(1, maxPastAcls=10)
    client = ensemble.session()
    for number in range(30):
        ensemble.do(client, client.create(b"/%d" % number, acl=((1, b"world", b"anyone"), EVE)))
    for number in range(30):
        ensemble.do(client, client.delete(b"/%d" % number))
    past = ensemble.servers[1].member.tree.past_acls
    assert len(past) <= 10
    assert 0 < past.complete_from < applied(ensemble)
    assert Feed(ensemble, client).page().status is OLDER
    assert len(Feed(ensemble, client, (past.complete_from, WHOLE)).drain()) == len(past)


def test_skip_acl_opens_the_feed_too() -> None:
    ensemble = Ensemble(1, skipACL="yes")
    client = ensemble.session()
    ensemble.do(client, client.create(b"/bob", b"secret", acl=(BOB,)), client.delete(b"/bob"))
    assert paths(Feed(ensemble, client).drain()) == [b"/bob", b"/bob"]


# -------------------------------------------------------------------------------------------------------------- limits


def test_a_request_that_is_none_is_refused() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    body = GetChanges(0, WHOLE, b"", b"/", 1000, 5000).encode()
    for xid in (7, 0, -15):
        assert ensemble.do(client, client.request(OpCode.GET_CHANGES, body, xid)) == [
            (xid, ErrorCode.BADARGUMENTS, None)
        ]
    negative = GetChanges(-1, WHOLE, b"", b"/", 1000, 0).encode()
    assert ensemble.do(client, client.request(OpCode.GET_CHANGES, negative, -20))[0][1] == ErrorCode.BADARGUMENTS
    short = client.request(OpCode.GET_CHANGES, body[:-1], -21)
    assert ensemble.do(client, short) == [(-21, ErrorCode.MARSHALLINGERROR, None)]
    assert not ensemble.servers[1].member.processor.change_feed.asked
    place = GetChanges(applied(ensemble), WHOLE, b"", b"/", 1000, 5000).encode()
    assert ensemble.do(client, client.request(OpCode.GET_CHANGES, place, -22)) == []
    assert ensemble.do(client, client.request(OpCode.GET_CHANGES, place, -22))[0][1] == ErrorCode.BADARGUMENTS


def test_requests_on_a_connection_with_more_bytes_of_paths_than_the_limit_are_refused() -> None:
    """Each of them waits for as long as it says, with all that it says."""
    ensemble = Ensemble(1)
    client = ensemble.session()
    prefix = b"/" + bytes(module.PREFIXES_BYTES_MAX // 3)
    feed = Feed(ensemble, client, (applied(ensemble), WHOLE), prefix, wait_ms=5_000)
    assert ensemble.do(client, *[feed.request() for _ in range(4)]) == [
        (-19, ErrorCode.THROTTLEDOP, None),
        (-20, ErrorCode.THROTTLEDOP, None),
    ]
    feed.prefix, feed.history_id = b"/", bytes(module.PREFIXES_BYTES_MAX)
    assert ensemble.do(client, feed.request()) == [(-21, ErrorCode.BADARGUMENTS, None)]
    assert len(ensemble.servers[1].member.processor.change_feed.asked[client.connection]) == 2


def test_more_requests_on_a_connection_than_the_limit_are_refused() -> None:
    ensemble = Ensemble(1, maxChangesPerConnection=3)
    client, other = ensemble.session(), ensemble.session()
    feed = Feed(ensemble, client, (applied(ensemble), WHOLE), wait_ms=60_000)
    replies = ensemble.do(client, *[feed.request() for _ in range(5)])
    assert replies == [(-20, ErrorCode.THROTTLEDOP, None), (-21, ErrorCode.THROTTLEDOP, None)]
    ensemble.do(other, Feed(ensemble, other, (applied(ensemble), WHOLE), wait_ms=60_000).request())
    client.replies()
    ensemble.do(other, other.create(b"/a"))
    assert sorted(xid for xid, _, _ in client.replies()) == [-19, -18, -17]
    assert len(ensemble.do(client, *[feed.request() for _ in range(3)])) == 3


def test_many_followers_share_a_turn_and_all_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TURN_COUNT_MAX", 5)
    ensemble = Ensemble(1)
    server = ensemble.servers[1]
    writer = ensemble.session()
    feeds = [Feed(ensemble, ensemble.session(), (applied(ensemble), WHOLE), wait_ms=60_000) for _ in range(20)]
    start = applied(ensemble)
    for feed in feeds:
        feed.place = start, WHOLE
        feed.ask()
    assert all(feed.take() is None for feed in feeds)
    writer.say(writer.create(b"/a"))
    waited = 0
    while any(feed.rows == [] for feed in feeds):
        ensemble.step(server)
        waited += 1
        assert waited < 40
        for feed in feeds:
            feed.take()
        if any(feed.rows for feed in feeds) and any(feed.rows == [] for feed in feeds):
            assert server.member.next_deadline() == ensemble.now
    assert waited >= 4
    assert all([row[5] for row in feed.rows] == [b"/a"] for feed in feeds)
    assert server.member.next_deadline() > ensemble.now


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_asked_is_answered_once_and_harms_nobody(seed: int) -> None:
    random = Random(seed)
    ensemble = Ensemble(1, **SMALL, maxChangesPerConnection=1000)
    client = ensemble.session()
    ensemble.do(client, client.create(b"/app"))
    fill(ensemble, client, 40)
    parts = [(OpCode.CREATE, Create(b"/m%d" % number, b"", OPEN_ACL, 0)) for number in range(5)]
    ensemble.do(client, multi(client, *parts))
    end = applied(ensemble)
    history_id = history_id_of(ensemble.leader)
    zxids = [0, 1, end, end - 1, end + 1, end - 30, (1 << 32) - 1, 1 << 32, 1 << 62, (1 << 63) - 1]
    xids = range(-17, -117, -1)
    for xid in xids:
        body = GetChanges(
            random.choice(zxids),
            random.choice([0, 1, 3, 4, 5, -1, -(1 << 31), WHOLE, WHOLE - 1]),
            random.choice([b"", b"", history_id, bytes(16), b"x"]),
            random.choice([b"/", b"", b"/app", b"/m3", b"app", b"//", b"\xff\x00", b"/app/"]),
            random.choice([0, 1, -1, 500, (1 << 31) - 1, -(1 << 31)]),
            random.choice([0, -1, 3000, (1 << 31) - 1, -(1 << 31)]),
        )
        client.say(client.request(OpCode.GET_CHANGES, body.encode(), xid))
    for _ in range(8):
        ensemble.settle()
        ensemble.advance(5_000)
        client.say(client.request(OpCode.PING, b"", -2))
    assert not client.is_closed
    assert sorted(xid for xid, error, _ in client.replies() if not error and xid < -2) == sorted(xids)
    assert not ensemble.servers[1].member.processor.change_feed.asked


def test_a_batch_is_decoded_once_for_all_who_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    original = module.rows_of
    monkeypatch.setattr(module, "rows_of", lambda batch: decoded.append(batch.zxid) or original(batch))
    ensemble = Ensemble(1)
    writer = ensemble.session()
    feeds = [Feed(ensemble, ensemble.session(), wait_ms=60_000) for _ in range(8)]
    for feed in feeds:
        feed.place = applied(ensemble), WHOLE
        feed.ask()
    decoded.clear()
    ensemble.do(writer, writer.create(b"/a"))
    assert all(feed.take() for feed in feeds)
    assert decoded == [applied(ensemble)]


def test_a_member_that_stops_to_serve_forgets_its_followers() -> None:
    ensemble = Ensemble(3)
    leader: Server = ensemble.leader
    client = ensemble.session(leader)
    Feed(ensemble, client, (applied(ensemble), WHOLE), wait_ms=60_000).ask()
    changes = leader.member.processor.change_feed
    assert changes.asked
    for link in list(ensemble.links):
        ensemble.break_link(link)
    ensemble.cut = {leader.sid}
    ensemble.settle()
    ensemble.advance(10 * TICK_MS)
    assert client.is_closed
    assert not leader.member.serving
    assert not changes.asked
    assert changes.next_deadline is None


def test_nobody_pays_who_does_not_follow() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    changes = ensemble.servers[1].member.processor.change_feed
    changes.turn = None  # type: ignore[assignment]  # would fail if it were called
    fill_names = [client.create(b"/%d" % number) for number in range(20)]
    assert len(ensemble.do(client, *fill_names, client.get(b"/1"))) == 21
