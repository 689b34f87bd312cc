"""Parents whose sequence numbers come to their end: who is named, and when the operator is told."""

from __future__ import annotations

import pytest

from datatree.record import Fields
from tests.rigs.direct.members import Ensemble, Server
from zab.member.events import Warn
from zab.member.state.sequences import PATH_CHARS_MAX, WARNED_BELOW, Sequences, nearest
from zab.member.words.figures import figures

END = 1 << 31


def test_the_parent_with_the_fewest_is_named() -> None:
    assert nearest({}) == ""
    assert nearest({b"/a": END - 9, b"/b": END - 8, b"/c": END - 10}) == "/b"
    assert nearest({b"/a": END - 1, b"/b": -END}) == "/b"
    assert nearest({b"/" + b"l" * 1_000: END - 1}) == "/" + "l" * (PATH_CHARS_MAX - 1) + "…"
    assert "\n" not in nearest({b"/a\nALARM": END - 1})


def test_it_is_told_again_when_half_are_gone() -> None:
    sequences = Sequences(100)
    told: list[tuple[int, list[str]]] = []
    for count in (WARNED_BELOW + 1, WARNED_BELOW, WARNED_BELOW - 1, 1 << 28, (1 << 28) - 1, 2, 1, 0, -1, -END + 1):
        created = END - count if count > 0 else -END - count
        lines = list(sequences.look({b"/q": created}, 7))
        told.append((count, [line.removeprefix("the sequence numbers below /q ") for line in lines]))
    assert sequences.look_at == 107
    assert {count: lines for count, lines in told if lines} == {
        WARNED_BELOW - 1: ["come to their end: 536870911 are left"],
        (1 << 28) - 1: ["come to their end: 268435455 are left"],
        2: ["come to their end: 2 are left"],
        1: ["come to their end: 1 are left"],
        0: ["have ended: those that follow are negative"],
    }


def test_each_parent_is_told_of_and_one_that_is_made_again_begins_anew() -> None:
    sequences = Sequences(100)
    assert len(list(sequences.look({b"/a": END - 5, b"/b": END - 6}, 0))) == 2
    assert list(sequences.look({b"/a": END - 5}, 0)) == []
    assert len(list(sequences.look({b"/a": END - 5, b"/b": END - 6}, 0))) == 1


def create_late(ensemble: Ensemble, number: int) -> None:
    """As after so many creations below /q; a transaction would take as many."""
    for server in ensemble.servers.values():
        tree = server.member.tree
        zxid = tree.applied
        tree.applied -= 1
        txn: Fields = (zxid, 0, 0, 0, 1, number, b"/q/last", b"", (None, 0))
        tree.apply(txn)
        server.member.digests.clear()
        server.member.digests.record(tree.applied, tree.digest)


def texts(server: Server) -> dict[str, object]:
    return {figure.name: figure.value for figure in figures(server.member.view)}


@pytest.mark.parametrize("is_on", [False, True])
def test_who_leads_tells_the_operator(is_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = Ensemble(3, sequence64Enabled="true" if is_on else "false")
    told: list[tuple[Server, str]] = []
    for server in ensemble.servers.values():
        outbox = server.member._outbox
        want = outbox.want

        def noting(effect: object, server: Server = server, want: object = want) -> None:
            if isinstance(effect, Warn):
                told.append((server, effect.text))
            want(effect)  # type: ignore[operator]

        monkeypatch.setattr(outbox, "want", noting)
    client = ensemble.session(ensemble.follower)
    ensemble.do(client, client.create(b"/q"))
    assert "sequence_numbers_parent" not in texts(ensemble.leader)
    create_late(ensemble, END - 8)
    ensemble.advance(3_000)
    for _ in range(3):
        ensemble.do(client, client.create(b"/q/n-", flags=2))
        ensemble.advance(1_000)
    said = [text for _, text in told]
    assert {server for server, _ in told} <= {ensemble.leader}
    if is_on:
        assert said == []
    else:
        assert said == [
            "the sequence numbers below /q come to their end: 8 are left",
            "the sequence numbers below /q come to their end: 7 are left",
        ]
    for server in ensemble.servers.values():
        assert texts(server)["sequence_numbers_parent"] == "/q"
        assert texts(server)["sequence_numbers_left"] == 5
