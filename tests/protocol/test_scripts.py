"""The protocol as scripts: `tests/testdata/zab/*.txt` hold commands and, under `----`, what the peers then say.

`pytest --rewrite` writes what they say now; the difference is what a review reads. The commands:

    servers N [observers SID …] [counter_limit=N …]     a new ensemble of voters 1..N, nothing started
    start [SID …]      crash SID …      partition A B      heal A B
    pause SID          it stands still   resume SID         it goes on
    run MS             let time pass     settle             deliver everything at this moment
    propose SID [COUNT]                  one batch          hold SID KIND / release SID    storage effects wait / go on
    wipe SID           lose its disk     mark SID …         the operator makes a file `initialize`
    recover SID        `zab recover --force` on its directory
    snapshot SID       a snapshot takes the place of its log, in memory and in the files
    sync SID TOKEN     ask a leader to confirm
    show               a line per server: role, epochs, end of history, mark, what it applied
"""

import shlex
from pathlib import Path

import pytest

from tests.rigs.direct.peers import Ensemble
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol.states import STATE_NAMES

SCRIPTS = Path(__file__).parent.parent / "testdata" / "zab"


def short(zxid: int) -> str:
    return f"{zxid >> 32}:{zxid & 0xFFFFFFFF}"


class Script:
    """Runs commands against one ensemble and collects what is said."""

    def __init__(self) -> None:
        self.ensemble = Ensemble(1)

    def run(self, line: str) -> list[str]:
        name, *arguments = shlex.split(line)
        said = len(self.ensemble.trace)
        shown = getattr(self, f"do_{name}")(*arguments) or []
        return self.ensemble.trace[said if name != "servers" else 0 :] + shown

    def do_servers(self, size: str, *rest: str) -> None:
        settings = {key: int(value) for key, value in (word.split("=") for word in rest if "=" in word)}
        observers = frozenset(int(word) for word in rest if "=" not in word and word != "observers")
        self.ensemble = Ensemble(int(size), observers=observers, **settings)

    def do_start(self, *sids: str) -> None:
        self.ensemble.start(*map(int, sids))

    def do_crash(self, *sids: str) -> None:
        self.ensemble.crash(*map(int, sids))

    def do_partition(self, one: str, two: str) -> None:
        self.ensemble.partition(int(one), int(two))

    def do_heal(self, one: str, two: str) -> None:
        self.ensemble.heal(int(one), int(two))

    def do_pause(self, sid: str) -> None:
        self.ensemble.paused.add(int(sid))

    def do_resume(self, sid: str) -> None:
        self.ensemble.resume(int(sid))

    def do_run(self, ms: str) -> None:
        self.ensemble.run(int(ms))

    def do_settle(self) -> None:
        self.ensemble.settle()

    def do_propose(self, sid: str, count: str = "1") -> None:
        self.ensemble.propose(int(sid), b"x", int(count))

    def do_hold(self, sid: str, kind: str) -> None:
        self.ensemble.servers[int(sid)].held.add(getattr(fx, kind))

    def do_release(self, sid: str) -> None:
        self.ensemble.servers[int(sid)].held.clear()

    def do_wipe(self, sid: str) -> None:
        self.ensemble.servers[int(sid)].wipe()

    def do_mark(self, *sids: str) -> None:
        for sid in sids:
            assert self.ensemble.servers[int(sid)].peer is None
            self.ensemble.servers[int(sid)].leave_marker()

    def do_recover(self, sid: str) -> None:
        self.ensemble.servers[int(sid)].recover_by_force()

    def do_snapshot(self, sid: str) -> None:
        server = self.ensemble.servers[int(sid)]
        assert server.peer is not None
        assert server.peer.history.base == server.peer.history.last, "give it recent_bytes_max=1"
        server.take_snapshot()

    def do_sync(self, sid: str, token: str) -> None:
        self.ensemble.step(int(sid), ev.SyncRequested(int(token)))

    def do_show(self) -> list[str]:
        rows = []
        for sid, server in self.ensemble.servers.items():
            if server.peer is None:
                rows.append(f"{sid}  down")
                continue
            peer = server.peer
            rows.append(
                f"{sid}  {STATE_NAMES[peer.state]} {peer.phase}  epochs {peer.accepted_epoch}/{peer.current_epoch}  "
                f"last {short(peer.history.last[0])}  durable {short(peer.durable)}  mark {short(peer.committed)}  "
                f"applied {' '.join(short(batch.zxid) for batch in server.applied) or '-'}"
                + (f"  synced {server.synced}" if server.synced else "")
            )
        return rows


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_script(path: Path, request: pytest.FixtureRequest) -> None:
    script = Script()
    produced: list[str] = []
    commands = True
    said: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line == "----":
            produced += [line, *said]
            said, commands = [], False
        elif not line:
            assert not said, "commands without ---- after them"
            produced.append(line)
            commands = True
        elif commands:
            produced.append(line)
            if not line.startswith("#"):
                said += script.run(line)
    text = "\n".join(produced) + "\n"
    if request.config.getoption("--rewrite"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
