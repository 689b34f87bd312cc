"""Ledgers in the tree: created, changed, deleted and listed, with answers that are lost and others who write."""

from typing import Any

import pytest
from attrs import evolve

from tests.ledger.metadata.ledgers import A, B, D, E, ledger
from tests.ledger.store.handlers import Coordination
from zab.coordination.operations import (
    CoordinationError,
    Create,
    Delete,
    Get,
    Operation,
    Result,
    Set,
    Stat,
    Sync,
)
from zab.ledger.metadata.changes import BY_REPLICATION, ForbiddenChangeError
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError, VersionedMetadata
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.metadata.serialized import decode_metadata, encode_metadata
from zab.ledger.store.ledgers import (
    Changed,
    Created,
    CreatedAndRecovered,
    Deleted,
    Lost,
    Refused,
    change_ledger,
    create_ledger,
    delete_ledger,
    list_ledgers,
    read_ledger,
)

ROOT = "/ledgers"
NEW = ledger(token=7)


@pytest.fixture
def zk() -> Coordination:
    coordination = Coordination()
    for path in (ROOT, f"{ROOT}/idgen", f"{ROOT}/available"):
        coordination.apply(Create(path))
    coordination.asked.clear()
    return coordination


def put(zk: Coordination, ledger_id: int, metadata: Any = NEW) -> str:
    """A ledger with this id, with its directories."""
    path = ledger_path(ROOT, ledger_id)
    parts = path.split("/")
    for end in range(3, len(parts)):
        zk.tree.apply(zk.session, Create("/".join(parts[:end])))
    data = metadata if isinstance(metadata, bytes) else encode_metadata(metadata)
    assert zk.tree.apply(zk.session, Create(path, data)).ok
    return path


def created(zk: Coordination) -> VersionedMetadata:
    found = zk.run(create_ledger(ROOT, NEW))
    assert isinstance(found, Created)
    zk.asked.clear()
    return found.versioned


# ---------------------------------------------------------------------------------------------------------------- reads


def test_a_read_that_decides_comes_after_a_sync(zk: Coordination) -> None:
    """2.6, rule 1."""
    path = put(zk, 7)
    assert zk.run(read_ledger(ROOT, 7)) == VersionedMetadata(7, NEW, 0)
    assert zk.asked == [Sync(path), Get(path)]


def test_a_ledger_that_is_not_there(zk: Coordination) -> None:
    assert zk.run(read_ledger(ROOT, 7)) is None


def test_what_is_no_metadata_is_an_error(zk: Coordination) -> None:
    put(zk, 7, b"garbage")
    with pytest.raises(InvalidMetadataError):
        zk.run(read_ledger(ROOT, 7))


def test_reads_whose_answers_are_lost_are_asked_again(zk: Coordination) -> None:
    put(zk, 7)
    zk.lost.extend(["done", "done", "not done"])
    assert zk.run(read_ledger(ROOT, 7)) is not None


# ------------------------------------------------------------------------------------------------------------- creating


def test_a_ledger_is_created_with_the_next_id_and_its_directories(zk: Coordination) -> None:
    first, second = created(zk), created(zk)
    assert (first.ledger, second.ledger) == (0, 1)
    assert second == zk.run(read_ledger(ROOT, 1)) == VersionedMetadata(1, NEW, 0)
    assert zk.tree.data("/ledgers/00/0000/L0001") == encode_metadata(NEW)
    assert zk.tree.children("/ledgers/idgen") == [], "znodes of ids do not stay"


@pytest.mark.parametrize("fates", [["answered"] * at + [fate] for at in range(8) for fate in ("done", "not done")])
def test_a_create_whose_answer_is_lost_makes_one_ledger(zk: Coordination, fates: list[str]) -> None:
    """Whichever answer is lost: the token decides what was this create's own."""
    zk.lost.extend(fates)
    outcome = zk.run(create_ledger(ROOT, NEW))
    assert isinstance(outcome, Created)
    made = outcome.versioned
    found = [path for path in zk.tree.znodes if "/L" in path and path != "/ledgers/LAYOUT"]
    assert found == [ledger_path(ROOT, made.ledger)]
    assert zk.run(read_ledger(ROOT, made.ledger)) == made


@pytest.mark.parametrize("recovered", [NEW.recovering(), NEW.recovering().closed_at(-1, 0)])
def test_a_create_that_somebody_has_recovered_before_its_answer_came_says_so(zk: Coordination, recovered: Any) -> None:
    """The answer was lost, and a recoverer was faster: the ledger is this create's, and cannot be written."""

    def recover(operation: Operation) -> None:
        path = ledger_path(ROOT, 0)
        if operation == Sync(path):
            zk.tree.apply(zk.session, Set(path, encode_metadata(recovered)))

    zk.before = recover
    zk.lost.extend(["answered"] * (creating_at() - 1) + ["done"])
    assert zk.run(create_ledger(ROOT, NEW)) == CreatedAndRecovered(VersionedMetadata(0, recovered, 1))
    assert zk.run(read_ledger(ROOT, 1)) is None, "there is no second one"


def creating_at() -> int:
    """Which operation of a create makes the znode of the ledger."""
    zk = Coordination()
    for path in (ROOT, f"{ROOT}/idgen", f"{ROOT}/available"):
        zk.apply(Create(path))
    zk.asked.clear()
    zk.run(create_ledger(ROOT, NEW))
    return len(zk.asked) - zk.asked[::-1].index(Create(ledger_path(ROOT, 0), encode_metadata(NEW)))


@pytest.mark.parametrize("token", [8, 0, None])
def test_an_id_that_is_taken_is_left_to_its_owner(zk: Coordination, token: int | None) -> None:
    """A rebuilt tree gives ids again; Pulsar's ledgers have no token, or 0."""
    other = evolve(NEW, token=token)
    put(zk, 0, other)
    assert created(zk).ledger == 1
    assert decode_metadata(zk.tree.data(ledger_path(ROOT, 0)) or b"") == other


def test_an_older_format_with_the_same_token_is_somebody_elses(zk: Coordination) -> None:
    put(zk, 0, evolve(NEW, format_version=2))
    assert created(zk).ledger == 1


def test_an_id_that_is_taken_by_something_unreadable_is_left_to_it(zk: Coordination) -> None:
    """A later format, or damage."""
    put(zk, 0, b"BookieMetadataFormatVersion\t4\n")
    assert created(zk).ledger == 1


def test_directories_that_vanish_are_made_again(zk: Coordination) -> None:
    """BookKeeper's clients delete empty ones while others create ledgers in them."""
    left = 5

    def delete_empty(operation: Operation) -> None:
        nonlocal left
        if isinstance(operation, Create) and "/L" in operation.path and left:
            left -= 1
            for path in ("/ledgers/00/0000", "/ledgers/00"):
                zk.tree.apply(zk.session, Delete(path))

    zk.before = delete_empty
    assert created(zk).ledger == 0
    assert left == 0


def test_directories_that_always_vanish_are_given_up(zk: Coordination) -> None:
    def delete_empty(operation: Operation) -> None:
        if isinstance(operation, Create) and "/L" in operation.path:
            for path in ("/ledgers/00/0000", "/ledgers/00"):
                zk.tree.apply(zk.session, Delete(path))

    zk.before = delete_empty
    with pytest.raises(CoordinationError):
        zk.run(create_ledger(ROOT, NEW))


@pytest.mark.parametrize(
    "first",
    [
        *(evolve(NEW, token=None), evolve(NEW, token=0), NEW.recovering(), NEW.closed_at(-1, 0)),
        evolve(NEW, format_version=2),
    ],
)
def test_what_a_ledger_does_not_begin_with(zk: Coordination, first: Any) -> None:
    with pytest.raises(ForbiddenChangeError):
        zk.run(create_ledger(ROOT, first))


# ------------------------------------------------------------------------------------------------------------------ ids


def test_ids_from_2_to_the_31_are_long_ones(zk: Coordination) -> None:
    zk.tree.znodes[f"{ROOT}/idgen"].sequence = 2**31 - 2
    assert created(zk).ledger == 2**31 - 2
    assert created(zk).ledger == (1 << 32) + 0
    assert created(zk).ledger == (1 << 32) + 1
    assert zk.tree.data("/ledgers/000/0000/0042/9496/L7296") is not None
    assert zk.tree.children(f"{ROOT}/idgen-long") == ["HOB-0000000001"]


def test_a_sequence_that_overflows_gives_no_short_id(zk: Coordination) -> None:
    """ZooKeeper's numbers become negative."""
    make = zk.apply

    def overflown(operation: Operation) -> Result:
        result = make(operation)
        if isinstance(operation, Create) and operation.path == f"{ROOT}/idgen/ID-":
            return Result(path=f"{ROOT}/idgen/ID--2147483648", stat=Stat())
        return result

    zk.apply = overflown  # type: ignore[method-assign]
    assert created(zk).ledger == 1 << 32


def test_everybody_makes_long_ids_once_their_directory_is_there(zk: Coordination) -> None:
    zk.apply(Create(f"{ROOT}/idgen-long"))
    assert created(zk).ledger == 1 << 32
    assert zk.tree.znodes[f"{ROOT}/idgen"].sequence == 0


def test_a_full_directory_of_long_ids_is_followed_by_the_next_and_three_are_kept(zk: Coordination) -> None:
    zk.apply(Create(f"{ROOT}/idgen-long"))
    for number in (3, 4, 5, 6):
        zk.apply(Create(f"{ROOT}/idgen-long/HOB-{number:010}"))
    for name in ("HOB-", "HOB-x", "other", "HOB-0000000000", "HOB-9999999999"):
        zk.apply(Create(f"{ROOT}/idgen-long/{name}"))
    zk.tree.znodes[f"{ROOT}/idgen-long/HOB-0000000006"].sequence = 2**31 - 1
    assert created(zk).ledger == 7 << 32
    names = [name for name in zk.tree.children(f"{ROOT}/idgen-long") if name.startswith("HOB-000000000")]
    assert names == ["HOB-0000000000", "HOB-0000000005", "HOB-0000000006", "HOB-0000000007"]


def test_the_directory_of_ids_is_made_on_demand(zk: Coordination) -> None:
    zk.apply(Delete(f"{ROOT}/idgen"))
    assert created(zk).ledger == 0


# ------------------------------------------------------------------------------------------------------------- changing

FENCED = NEW.recovering()
WIDER = NEW.with_ensemble(0, (A, B, D))


def test_a_change_replaces_what_was_read(zk: Coordination) -> None:
    before = created(zk)
    outcome = zk.run(change_ledger(ROOT, before, FENCED))
    assert outcome == Changed(VersionedMetadata(0, FENCED, 1))
    assert zk.run(read_ledger(ROOT, 0)) == VersionedMetadata(0, FENCED, 1)
    assert zk.asked[0] == Set(ledger_path(ROOT, 0), encode_metadata(FENCED), 0), "with the version that was read"


def test_a_change_of_something_older_is_refused_with_what_is_there(zk: Coordination) -> None:
    """2.6, rule 2: it is never applied to another base."""
    before = created(zk)
    zk.run(change_ledger(ROOT, before, FENCED))
    assert zk.run(change_ledger(ROOT, before, WIDER)) == Refused(VersionedMetadata(0, FENCED, 1))


def test_a_change_of_a_ledger_that_is_gone_is_refused(zk: Coordination) -> None:
    assert zk.run(change_ledger(ROOT, VersionedMetadata(5, NEW, 0), FENCED)) == Refused(None)


@pytest.mark.parametrize("fate", ["done", "not done"])
def test_a_change_whose_answer_is_lost_is_decided_by_what_is_there(zk: Coordination, fate: str) -> None:
    """2.6, rules 3 and 4; an unchanged version says that it was not done, so it is done then."""
    before = created(zk)
    zk.lost.append(fate)
    assert zk.run(change_ledger(ROOT, before, FENCED)) == Changed(VersionedMetadata(0, FENCED, 1))


@pytest.mark.parametrize("fate", ["done", "not done"])
def test_a_change_whose_answer_is_lost_and_that_somebody_wrote_over_is_unknown(zk: Coordination, fate: str) -> None:
    before = created(zk)
    path = ledger_path(ROOT, 0)

    def overwrite(operation: Operation) -> None:
        if isinstance(operation, Sync):
            zk.tree.apply(zk.session, Set(path, encode_metadata(FENCED)))
            zk.before = lambda _: None

    zk.before = overwrite
    zk.lost.append(fate)
    assert zk.run(change_ledger(ROOT, before, WIDER)) == Lost()


def test_a_change_whose_answer_is_lost_of_a_ledger_that_is_gone_is_unknown(zk: Coordination) -> None:
    zk.lost.append("not done")
    assert zk.run(change_ledger(ROOT, VersionedMetadata(5, NEW, 0), FENCED)) == Lost()


def test_a_change_that_nobody_may_make_is_not_written(zk: Coordination) -> None:
    before = created(zk)
    with pytest.raises(ForbiddenChangeError):
        zk.run(change_ledger(ROOT, before, NEW.with_member(0, 1, E).recovering()))
    with pytest.raises(ForbiddenChangeError, match="not by this one"):
        zk.run(change_ledger(ROOT, before, FENCED, BY_REPLICATION))
    assert zk.asked == []


def test_another_refusal_is_an_error(zk: Coordination) -> None:
    before = created(zk)
    zk.tree.end_session(zk.session)
    with pytest.raises(CoordinationError, match="SESSIONEXPIRED"):
        zk.run(change_ledger(ROOT, before, FENCED))


# ------------------------------------------------------------------------------------------------------------- deleting


def closed(zk: Coordination) -> VersionedMetadata:
    outcome = zk.run(change_ledger(ROOT, created(zk), NEW.closed_at(3, 30)))
    assert isinstance(outcome, Changed)
    return outcome.versioned


@pytest.mark.parametrize("fates", [[], ["done"], ["not done"], ["answered", "done"]])
def test_a_closed_ledger_is_deleted_with_its_empty_directories(zk: Coordination, fates: list[str]) -> None:
    found = closed(zk)
    zk.lost.extend(fates)
    assert zk.run(delete_ledger(ROOT, found)) == Deleted()
    assert "/ledgers/00" not in zk.tree.znodes
    assert zk.run(delete_ledger(ROOT, found)) == Deleted(), "a ledger that is gone is deleted"


def test_directories_with_other_ledgers_stay(zk: Coordination) -> None:
    found = closed(zk)
    put(zk, 5)
    assert zk.run(delete_ledger(ROOT, found)) == Deleted()
    assert zk.tree.children("/ledgers/00/0000") == ["L0005"]


def test_a_ledger_that_somebody_may_write_is_not_deleted(zk: Coordination) -> None:
    """S11"""
    found = created(zk)
    for metadata in (NEW, FENCED):
        with pytest.raises(ForbiddenChangeError, match="not closed"):
            zk.run(delete_ledger(ROOT, evolve(found, metadata=metadata)))


@pytest.mark.parametrize("fates", [[], ["not done"]])
def test_a_ledger_that_was_changed_since_is_not_deleted(zk: Coordination, fates: list[str]) -> None:
    found = closed(zk)
    repaired = zk.run(change_ledger(ROOT, found, found.metadata.with_member(0, 1, E)))
    assert isinstance(repaired, Changed)
    zk.lost.extend(fates)
    assert zk.run(delete_ledger(ROOT, found)) == Refused(repaired.versioned)


# -------------------------------------------------------------------------------------------------------------- listing

IDS = [0, 1, 9_999, 10_000, 123_456_789, 2**31 - 2, 2**31 - 1, 2**32, 2**40, 2**63 - 1]


def test_ledgers_of_both_trees_are_listed_in_order(zk: Coordination) -> None:
    for each in reversed(IDS):
        put(zk, each)
    for path in ("cookies", "00/0000/x", "00/0000/Lx", "0", "000/0000/0000", "000/0000/0000/0000"):
        zk.apply(Create(f"{ROOT}/{path}"))
    assert zk.apply(Create(f"{ROOT}/000/0000/0000/0000/L0007")).ok, "not where ledger 7 would be"
    assert zk.run(list_ledgers(ROOT)) == tuple(IDS)


def test_ledgers_are_listed_page_by_page(zk: Coordination) -> None:
    for each in IDS:
        put(zk, each)
    for size in (1, 2, 3, 4, 100):
        found: list[int] = []
        while page := zk.run(list_ledgers(ROOT, found[-1] if found else -1, size)):
            assert len(page) == size or page[-1] == IDS[-1]
            found += page
        assert found == IDS
    zk.asked.clear()
    zk.run(list_ledgers(ROOT, 2**40 - 1, 1))
    assert len(zk.asked) < 12, "directories before that are not read"


def test_a_directory_that_vanishes_is_empty_and_the_others_are_read(zk: Coordination) -> None:
    """S12: nobody takes an error for the end."""
    for each in IDS:
        put(zk, each)

    def vanish(operation: Operation) -> None:
        if operation.path == "/ledgers/00/0001":
            zk.tree.apply(zk.session, Delete("/ledgers/00/0001/L0000"))
            zk.tree.apply(zk.session, Delete("/ledgers/00/0001"))

    zk.before = vanish
    assert zk.run(list_ledgers(ROOT)) == tuple(each for each in IDS if each != 10_000)


def test_a_listing_whose_answers_are_lost_is_complete_all_the_same(zk: Coordination) -> None:
    for each in IDS:
        put(zk, each)
    zk.lost.extend(["not done", "done"] * 30)
    assert zk.run(list_ledgers(ROOT)) == tuple(IDS)


def test_a_listing_that_is_refused_is_an_error(zk: Coordination) -> None:
    """S12"""
    put(zk, 5)
    with pytest.raises(CoordinationError):
        zk.run(list_ledgers("/elsewhere"))
