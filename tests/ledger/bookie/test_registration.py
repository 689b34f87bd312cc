"""Cookies, registration, read-only and back (2.5, 4.12; wire facts 4.6, 4.7)."""

from __future__ import annotations

import pytest
from attrs import evolve

from tests.ledger.bookie.coordination import INSTANCE, LOST, ROOT, MemberBench, new_tree, run
from tests.ledger.bookie.kit import DIGEST, KEY, SMALL, Bench, add
from zab.coordination.operations import Create, Delete, Operation, Result, Set, Sync, ZooKeeperError
from zab.ledger.bookie.cookie_check import (
    CookieError,
    LocalCookie,
    check_cookie,
    read_local_cookie,
    write_local_cookie,
)
from zab.ledger.bookie.events import Ordered, Space
from zab.ledger.bookie.registration import NameTaken, Registered, register
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.cookies import Cookie, encode_cookie
from zab.ledger.wire.messages import ReadEntry, WriteLac
from zab.ledger.wire.status import Status
from zab.simulator.world.disk import FaultyDisk

COOKIE = Cookie(BookieId("b1"), ("/data",), ("/data",), INSTANCE.decode(), ("/data",))
PATH = f"{ROOT}/cookies/b1"
AVAILABLE = f"{ROOT}/available/b1"
READ_ONLY = f"{ROOT}/available/readonly/b1"
UUID = b"u" * 16


def test_the_first_start_makes_the_znode_and_a_later_one_compares() -> None:
    tree, disk = new_tree(), FaultyDisk()
    session = tree.begin_session()
    data = run(check_cookie(ROOT, COOKIE, read_local_cookie(disk)), tree, session)
    assert tree.data(PATH) == data == encode_cookie(COOKIE)
    write_local_cookie(disk, LocalCookie(data, UUID))
    local = read_local_cookie(disk)
    assert local == LocalCookie(data, UUID)
    assert run(check_cookie(ROOT, COOKIE, local), tree, session) == data


def test_the_first_bookie_of_a_new_root_makes_the_directory_of_cookies() -> None:
    tree = new_tree()
    session = tree.begin_session()
    assert tree.apply(session, Delete(f"{ROOT}/cookies")).ok
    assert run(check_cookie(ROOT, COOKIE, None), tree, session) == tree.data(PATH)


def test_a_lost_disk_is_refused() -> None:
    """S4: it would say that it does not have what it has acknowledged."""
    tree = new_tree()
    session = tree.begin_session()
    run(check_cookie(ROOT, COOKIE, None), tree, session)
    with pytest.raises(CookieError, match="disk was lost"):
        run(check_cookie(ROOT, COOKIE, None), tree, session)


def test_cookies_that_differ_are_refused() -> None:
    tree = new_tree()
    session = tree.begin_session()
    local = LocalCookie(encode_cookie(COOKIE), UUID)
    with pytest.raises(CookieError, match="deleted"):
        run(check_cookie(ROOT, COOKIE, local), tree, session)
    run(check_cookie(ROOT, COOKIE, None), tree, session)
    with pytest.raises(CookieError, match="ledger_directories"):
        run(check_cookie(ROOT, evolve(COOKIE, ledger_directories=("/other",)), local), tree, session)
    tree.apply(session, Set(PATH, encode_cookie(evolve(COOKIE, journal_directories=("/x",)))))
    with pytest.raises(CookieError, match="differs"):
        run(check_cookie(ROOT, COOKIE, local), tree, session)
    tree.apply(session, Set(f"{ROOT}/INSTANCEID", b"another"))
    with pytest.raises(CookieError, match="another cluster"):
        run(check_cookie(ROOT, COOKIE, local), tree, session)
    tree.apply(session, Delete(f"{ROOT}/INSTANCEID"))
    with pytest.raises(CookieError, match="formatted"):
        run(check_cookie(ROOT, COOKIE, local), tree, session)


def test_a_cookie_whose_answer_is_lost() -> None:
    """2.6: what is there decides."""
    tree = new_tree()
    session = tree.begin_session()
    losses = [True, True]

    def lose(operation: Operation) -> Result | None:
        if isinstance(operation, Create) and losses:
            losses.pop()
            if not losses:
                tree.apply(session, operation)
            return LOST
        return None

    assert run(check_cookie(ROOT, COOKIE, None), tree, session, lose) == tree.data(PATH)


def test_another_bookie_makes_the_same_cookie_at_the_same_time() -> None:
    tree = new_tree()
    session = tree.begin_session()

    def interfere(operation: Operation) -> Result | None:
        if isinstance(operation, Create):
            tree.apply(session, Create(PATH, encode_cookie(COOKIE)))
        return None

    with pytest.raises(CookieError, match="at this moment"):
        run(check_cookie(ROOT, COOKIE, None), tree, session, interfere)


def test_a_directory_without_a_cookie_is_not_empty_if_it_has_files() -> None:
    bench = Bench()
    with pytest.raises(CookieError, match="checkpoint"):
        read_local_cookie(bench.disk)
    write_local_cookie(bench.disk, LocalCookie(b"data", UUID))
    size = bench.disk.size("cookie")
    for bit in range(0, 8 * size, 3):
        disk = FaultyDisk()
        disk.restore(bench.disk.image())
        disk.flip("cookie", bit)
        with pytest.raises(CookieError, match="damaged"):
            read_local_cookie(disk)


def test_it_is_registered_as_available_and_in_a_new_session_again() -> None:
    bench = MemberBench()
    assert bench.tree.data(AVAILABLE) == b"info"
    assert bench.tree.data(READ_ONLY) is None
    bench.expire()
    bench.settle()
    assert bench.tree.znodes[AVAILABLE].stat.ephemeral_owner == bench.session
    assert bench.answer(add(1, 0)).status is Status.OK


def test_the_znode_of_another_session_is_waited_for_and_never_deleted() -> None:
    tree = new_tree()
    owner, session = tree.begin_session(), tree.begin_session()
    tree.apply(owner, Create(AVAILABLE, b"old", ephemeral=True))
    waited: list[int] = []

    def end_it(ms: int) -> None:
        waited.append(ms)
        if len(waited) == 3:
            tree.end_session(owner)

    assert run(register(ROOT, "b1", b"info", session, read_only=False), tree, session, paused=end_it) == Registered(
        False
    )
    assert len(waited) == 3
    tree.end_session(session)
    tree.apply(owner := tree.begin_session(), Create(AVAILABLE, b"old", ephemeral=True))
    session = tree.begin_session()
    assert run(register(ROOT, "b1", b"info", session, read_only=False), tree, session) == NameTaken(AVAILABLE)
    assert tree.znodes[AVAILABLE].stat.ephemeral_owner == owner


def test_a_registration_whose_answer_is_lost() -> None:
    tree = new_tree()
    session = tree.begin_session()
    losses = [True, True]

    def lose(operation: Operation) -> Result | None:
        if isinstance(operation, Create | Delete) and losses:
            losses.pop()
            tree.apply(session, operation)
            return LOST
        return None

    assert run(register(ROOT, "b1", b"info", session, read_only=True), tree, session, lose) == Registered(True)
    losses += [True, True]
    assert run(register(ROOT, "b1", b"info", session, read_only=False), tree, session, lose) == Registered(False)
    assert tree.data(READ_ONLY) is None


def test_it_is_never_in_neither_place() -> None:
    """4.12: the new znode first."""
    bench = MemberBench()
    seen: list[tuple[bool, bool]] = []

    def look(operation: Operation) -> None:
        seen.append((AVAILABLE in bench.tree.znodes, READ_ONLY in bench.tree.znodes))

    bench.before = look  # type: ignore[assignment]
    bench.step(Ordered(read_only=True))
    bench.settle()
    assert bench.tree.data(READ_ONLY) == b"info"
    assert bench.tree.data(AVAILABLE) is None
    bench.step(Ordered(read_only=False))
    bench.settle()
    assert bench.tree.data(AVAILABLE) == b"info"
    assert bench.tree.data(READ_ONLY) is None
    assert (False, False) not in seen


def test_a_refusal_of_the_service_is_tried_again() -> None:
    bench = MemberBench()
    bench.before = lambda operation: Result(ZooKeeperError.NOAUTH) if isinstance(operation, Create) else None
    bench.step(Ordered(read_only=True))
    assert bench.reports
    bench.before = lambda operation: None
    bench.pass_ms(10_000)
    bench.settle()
    assert bench.tree.data(READ_ONLY) == b"info"


@pytest.mark.parametrize("refused", [AVAILABLE, AVAILABLE.rpartition("/")[0], READ_ONLY])
def test_what_an_acl_does_not_admit_is_said_once_and_tried_again(refused: str) -> None:
    """A znode that an operator, or another tool, has made. It is no reason to ask at once again, for ever."""
    tree = new_tree()
    asked: list[Operation] = []

    def refuse(operation: Operation) -> Result | None:
        asked.append(operation)
        path = getattr(operation, "path", "")
        if path == refused and not isinstance(operation, Sync):
            return Result(ZooKeeperError.NOAUTH)
        if path == AVAILABLE and refused == AVAILABLE.rpartition("/")[0]:
            return Result(ZooKeeperError.NONODE)
        return None

    bench = MemberBench(tree=tree)
    bench.before = refuse
    bench.expire()
    for _ in range(5):
        assert len(asked) < 100
        bench.pass_ms(10_000)
        bench.settle()
    found = [report for report in bench.reports if report.startswith("register")]
    assert found == [f"register: the ACL of {refused} does not admit this bookie -> change it; tried again later"]
    bench.before = lambda operation: None
    bench.pass_ms(10_000)
    bench.settle()
    assert bench.tree.data(AVAILABLE) == b"info"
    assert bench.answer(add(1, 0)).status is Status.OK


def test_a_full_disk_makes_it_read_only_until_there_is_room_again() -> None:
    """4.12, wire facts 5.4: reads, fences and what recovery needs go on."""
    bench = MemberBench()
    bench.answer(add(1, 0))
    bench.step(Space(60_001, 1_200_000))
    assert bench.answer(add(1, 1)).status is Status.OK
    bench.step(Space(60_000, 1_200_000))
    assert bench.answer(add(1, 2)).status is Status.READ_ONLY
    assert bench.answer(add(1, 2, is_recovery=True)).status is Status.READ_ONLY, "without priority"
    assert bench.answer(WriteLac(1, 0, KEY, DIGEST.pack_lac(1, 0))).status is Status.READ_ONLY
    assert bench.answer(add(1, 2, is_urgent=True)).status is Status.READ_ONLY, "the reserve is used up"
    assert bench.answer(ReadEntry(1, 0)).status is Status.OK
    assert bench.answer(ReadEntry(1, 7, KEY, is_fencing=True)).status is Status.NO_ENTRY
    bench.settle()
    assert bench.tree.data(READ_ONLY) == b"info"
    bench.step(Space(119_999, 1_200_000))
    assert bench.answer(add(2, 0)).status is Status.READ_ONLY, "it changes its mind too soon"
    assert bench.answer(add(2, 0, is_urgent=True)).status is Status.OK
    bench.step(Space(120_001, 1_200_000))
    assert bench.answer(add(2, 1)).status is Status.OK
    bench.settle()
    assert bench.tree.data(READ_ONLY) is None


def test_the_space_is_asked_for_in_time() -> None:
    bench = Bench()
    bench.disk.capacity_bytes = 100_000
    bench.pass_ms(SMALL.space_check_ms - 1)
    assert bench.bookie.space.known != Space(bench.disk.free_bytes(), 100_000)
    bench.pass_ms(1)
    assert bench.bookie.space.known == Space(bench.disk.free_bytes(), 100_000)
