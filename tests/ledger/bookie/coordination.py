"""Handlers against a tree of znodes, and a bookie that has a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.ledger.bookie.kit import SMALL, Bench
from zab.coordination.driver import Connected, Expired, Results
from zab.coordination.operations import Create, Operation, Result, ZooKeeperError
from zab.coordination.steps import Pause, Steps
from zab.ledger.bookie.bookie import Bookie
from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.events import Effects, Input
from zab.ledger.bookie.membership import Member
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.paths import ledger_path, parents_of
from zab.simulator.coordination.znode_tree import ZnodeTree

T = TypeVar("T")
ROOT = "/ledgers"
INSTANCE = b"0b4e1f2a-0000-4000-8000-000000000001"
MEMBER = Member(ROOT, BookieId("b1"), INSTANCE, b"info")
LOST = Result(ZooKeeperError.CONNECTIONLOSS)


def new_tree() -> ZnodeTree:
    """A formatted root."""
    tree = ZnodeTree()
    session = tree.begin_session()
    for path, data in (
        (ROOT, b""),
        (f"{ROOT}/INSTANCEID", INSTANCE),
        (f"{ROOT}/available", b""),
        (f"{ROOT}/available/readonly", b""),
        (f"{ROOT}/cookies", b""),
    ):
        assert tree.apply(session, Create(path, data)).ok
    return tree


def create_ledgers(tree: ZnodeTree, *ledgers: int) -> None:
    session = tree.begin_session()
    for ledger in ledgers:
        path = ledger_path(ROOT, ledger)
        for parent in parents_of(ROOT, path):
            tree.apply(session, Create(parent))
        assert tree.apply(session, Create(path)).ok


def run(
    steps: Steps[T],
    tree: ZnodeTree,
    session: int,
    before: Callable[[Operation], Result | None] = lambda operation: None,
    paused: Callable[[int], None] = lambda ms: None,
) -> T:
    """What a handler returns. `before` may answer in place of the tree."""
    sent: tuple[Result, ...] = ()
    try:
        asked = next(steps)
        for _ in range(10_000):
            if isinstance(asked, Pause):
                paused(asked.ms)
                sent = ()
            else:
                sent = tuple(before(operation) or tree.apply(session, operation) for operation in asked)
            asked = steps.send(sent)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it does not end")


class MemberBench(Bench):
    """A bookie with a session."""

    def __init__(self, config: BookieConfig = SMALL, tree: ZnodeTree | None = None) -> None:
        self.tree = tree or new_tree()
        self.before: Callable[[Operation], Result | None] = lambda operation: None
        self.session = self.tree.begin_session()
        super().__init__(config)

    def start(self) -> None:
        super().start()
        self.bookie = Bookie(self.config, self.opened, self.now_ms, MEMBER)
        self.step()
        self.step(Connected(self.session))

    def step(self, *inputs: Input) -> Effects:
        effects = super().step(*inputs)
        for submit in effects.submits:
            results = tuple(self.before(each) or self.tree.apply(self.session, each) for each in submit.operations)
            self.step(Results(submit.batch, results))
        return effects

    def expire(self) -> None:
        """The session ends, and another one begins."""
        self.tree.end_session(self.session)
        self.step(Expired())
        self.session = self.tree.begin_session()
        self.step(Connected(self.session))

    def collect(self) -> None:
        """A round of collection, to its end."""
        self.pass_ms(self.config.collect_ms)
        self.settle()
