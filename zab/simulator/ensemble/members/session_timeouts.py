"""Checks that a leader ends a session only after its full timeout without processed input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from attrs import define

from zab.member.clients.connection import Stage
from zab.member.events import Input
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.quorum.ids import NO_LINK
from zab.simulator.ensemble.judges.model import Model
from zab.simulator.ensemble.members.process import MemberProcess
from zab.simulator.world.verdict import SafetyError
from zab.wire.client_protocol import ClientBytes

_RULE = "sessions expire only after their timeout"


@define
class Heard:
    """When a leader heard from sessions, by its monotonic clock."""

    since: int
    """When it began to serve, which gives every session its full timeout."""
    at: dict[int, int]


class SessionTimeouts:
    """The checker of one run. `counts` belongs to the observer."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self.ended_by_hand: set[int] = set()
        """Sessions that a leader was told to end, even if they were not silent."""
        self._heard: dict[MemberProcess, Heard] = {}

    def begin_lineage(self) -> None:
        self._heard.clear()
        self.ended_by_hand.clear()

    def process_stopped(self, process: MemberProcess) -> None:
        self._heard.pop(process, None)

    def leads(self, process: MemberProcess) -> None:
        """Note that a leader proposes, and so hears from sessions from now on."""
        if process not in self._heard:
            self._heard[process] = Heard(process.member.now, {})

    def begins(self, process: MemberProcess, session: int) -> None:
        """Note that a leader proposes the beginning of this session."""
        self._heard[process].at[session] = process.member.now

    def turn_ended(self, process: MemberProcess) -> None:
        """Note that a new leader hears from sessions from now on."""
        member = process.member
        if member.serving and member.peer.leading is not None:
            self.leads(process)
        else:
            self._heard.pop(process, None)

    def turn_begins(self, process: MemberProcess, inputs: Sequence[Input]) -> None:
        """Note the sessions that the inputs of a leader's turn come from."""
        heard = self._heard.get(process)
        if heard is None:
            return
        sessions: list[Any] = []
        for event in inputs:
            if isinstance(event, ClientBytes):
                connection = event.connection
                if connection.stage is Stage.SERVED and not connection.closing:
                    sessions.append(connection.session)
            elif isinstance(event, ev.MessageReceived):
                message = event.message
                if isinstance(message, msg.Ping):
                    if event.link in process.peer.learners:
                        sessions += (session for session, _ in message.touched)
                elif isinstance(message, mmsg.Revalidate) and event.link in process.peer.learners:
                    sessions.append(message.session)
        tracker = process.member.sessions.tracker
        if sessions and tracker is not None:
            now = process.machine.now_ms
            # Once a leader has decided to end a session, later input does not count: it only has to propose the end.
            heard.at.update((session, now) for session in sessions if tracker.is_alive(session))

    def heard_behind_another(self, process: MemberProcess, effect: fx.MemberMessage) -> None:
        """Note a message to the leader about an observer's session. Touches come together with the master's own."""
        heard, tracker = self._heard.get(process), process.member.sessions.tracker
        message = effect.message
        if heard is None or tracker is None or effect.behind == NO_LINK or not isinstance(message, mmsg.Revalidate):
            return
        if tracker.is_alive(message.session):  # type: ignore[arg-type]
            heard.at[message.session] = process.machine.now_ms

    def expires(self, process: MemberProcess, session: int, model: Model) -> None:
        """Check a session that a leader ends for its silence."""
        if session in self.ended_by_hand:
            return
        now = process.member.now
        heard = self._heard[process]
        timeout_ms = model.sessions.get(session, 0)
        silent_ms = now - max(heard.since, heard.at.get(session, heard.since))
        if silent_ms < timeout_ms:
            reason = f"leader {process.sid} ends {session:#x} after {silent_ms} ms, its timeout is {timeout_ms} ms"
            raise SafetyError(_RULE, reason)
        self._counts["sessions timed out"] += 1
