"""The election of the auditor, whatever answer is lost and whatever the service refuses."""

import pytest

from tests.ledger.store.handlers import Coordination
from zab.coordination.operations import CoordinationError, Create, Delete, Result, Set, ZooKeeperError
from zab.ledger.metadata.repair_locks import lock
from zab.ledger.metadata.underreplication import ELECTION, VOTE_PREFIX, decode_vote
from zab.ledger.replication.election import Standing, stand, who_is_auditor
from zab.ledger.replication.switches import write_check_time

ROOT = "/ledgers"
PATH = f"{ROOT}/{ELECTION}"


def service():
    of = Coordination()
    of.apply(Create(ROOT))
    return of


def vote(number):
    return f"{PATH}/{VOTE_PREFIX}{number:010}"


def candidate(of, name):
    """Another session on the same tree."""
    other = Coordination()
    other.tree, other.session = of.tree, of.tree.begin_session()
    return other, other.run(stand(ROOT, name, other.session))


def test_the_first_candidate_is_the_auditor_and_the_next_one_watches_it():
    of = service()
    assert of.run(stand(ROOT, "one:1", of.session)) == Standing(vote(0), None)
    second, standing = candidate(of, "two:1")
    assert standing == Standing(vote(1), vote(0))
    assert of.run(who_is_auditor(ROOT)) == "one:1"
    of.apply(Delete(vote(0)))
    assert of.tree.fired == [(second.session, vote(0))]
    assert second.run(stand(ROOT, "two:1", second.session)) == Standing(vote(1), None)
    assert of.run(who_is_auditor(ROOT)) == "two:1"


@pytest.mark.parametrize("fate", ["done", "not done"])
@pytest.mark.parametrize("at", range(12))
def test_a_candidate_stands_once_whichever_answer_is_lost(at, fate):
    of = service()
    of.lost.extend(["answered"] * at + [fate])
    assert of.run(stand(ROOT, "one:1", of.session)) == Standing(vote(0), None)
    assert len(of.tree.children(PATH)) == 1
    assert decode_vote(of.tree.data(vote(0))) == "one:1"


@pytest.mark.parametrize("refused", [Create, Set])
def test_a_candidate_that_the_service_refuses_is_told(refused):
    of = service()
    of.run(stand(ROOT, "one:1", of.session))
    of.apply(Delete(vote(0)))
    apply, noauth = of.apply, Result(ZooKeeperError.NOAUTH)
    of.apply = lambda operation: noauth if isinstance(operation, refused) else apply(operation)
    with pytest.raises(CoordinationError, match="NOAUTH"):
        of.run(stand(ROOT, "one:1", of.session))


@pytest.mark.parametrize(
    "asks",
    [
        lambda of: stand(ROOT, "one:1", of.session),
        lambda of: lock(ROOT, 7, "one:1", of.session),
        lambda of: write_check_time(ROOT, "underreplication/replicasCheckTime", 5),
    ],
    ids=["stand", "lock", "write"],
)
def test_without_a_root_nothing_is_asked_for_ever(asks):
    of = Coordination()
    with pytest.raises(CoordinationError, match="NONODE"):
        of.run(asks(of))
    assert len(of.asked) < 1_000
