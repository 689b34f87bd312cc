"""Asks the other members for the batches that a hole in the log has lost, over connections of its own (C9 holes).

    HoleFiller.run()    returns the hole once it is filled; None once a leader has synchronized this member

Not here: when they are asked, and the use of the answers (`zab.member.storage.hole_fill`).
"""

from __future__ import annotations

from collections.abc import Mapping

import trio

from datatree.recovery.holes import Hole, HoleError
from zab.host.journal.journal import Journal
from zab.host.loop.conversation import Conversation, reason_of
from zab.host.loop.dial import Address
from zab.host.loop.greeting import Greeting
from zab.member.membership.greeting import Purpose
from zab.member.storage.hole_fill import FILL_MS, Waiting, request, should_ask, take
from zab.member.storage.snapshot_request import ANSWERS, HISTORY_BYTES_MAX, PIECE_BYTES_MAX, REQUESTS, SnapshotRefused
from zab.quorum.ids import ServerId
from zab.wire.frames import FrameError
from zab.wire.records import MessageError

journal = Journal("hole_filler")


class HoleFiller:
    """Fills the hole that a start has found."""

    def __init__(
        self,
        hole: Hole,
        sid: ServerId,
        members: Mapping[ServerId, Address],
        greeting: Greeting,
        stall_seconds: float,
        peer: Waiting,
    ) -> None:
        """`members`: the known members at each round, perhaps including this one, `sid`."""
        self._hole = hole
        self._sid = sid
        self._members = members
        self._greeting = greeting
        self._stall_seconds = stall_seconds
        self._peer = peer
        self.rounds_count = 0

    async def run(self) -> Hole | None:
        """Ask all members repeatedly, each time another one first."""
        while True:
            await trio.sleep(FILL_MS / 1000)
            if not self._peer.amnesiac:
                return None
            others = [(sid, address) for sid, address in self._members.items() if sid != self._sid]
            if should_ask(self._peer) and others:
                hole = self._hole.anew()
                self.rounds_count += 1
                number = self.rounds_count % len(others)
                if await self._ask_all(hole, others[number:] + others[:number]):
                    return hole

    async def _ask_all(self, hole: Hole, others: list[tuple[ServerId, Address]]) -> bool:
        """Ask all members, again while any of them sends something. True: the hole is filled."""
        is_going_on = True
        while is_going_on:
            is_going_on = False
            for sid, address in others:
                try:
                    while await self._ask(hole, sid, address):
                        is_going_on = True
                        if hole.wanted is None:
                            return True
                except HoleError as error:
                    journal.warning("the batches received do not fill the hole in the log", sid=sid, reason=str(error))
                    return False
                except (trio.BrokenResourceError, trio.TooSlowError, EOFError, OSError) as error:
                    journal.debug("a member cannot be asked", sid=sid, reason=reason_of(error))
                except (FrameError, MessageError) as error:
                    journal.warning("a member did not send what the log has lost", sid=sid, reason=str(error))
        return False

    async def _ask(self, hole: Hole, sid: ServerId, address: Address) -> bool:
        """Send one request. False: nothing came. Raises HoleError, OSError, and as `Conversation` does."""
        with trio.fail_after(self._stall_seconds) as scope:
            talk, _ = await self._greeting.reach(address, Purpose.SNAPSHOT, sid)
            async with talk.stream:
                talk.frame_bytes_max = PIECE_BYTES_MAX
                await talk.send(REQUESTS.encode(request(hole)))
                return take(hole, await self._receive(talk, scope))

    async def _receive(self, talk: Conversation, scope: trio.CancelScope) -> bytes:
        answer = ANSWERS.decode(await talk.receive())
        if isinstance(answer, SnapshotRefused):
            raise MessageError(answer.reason)
        if answer.size_bytes > HISTORY_BYTES_MAX:
            raise MessageError(f"{answer.size_bytes} bytes are more than the longest batch")
        data = bytearray()
        while len(data) < answer.size_bytes:
            scope.deadline = trio.current_time() + self._stall_seconds
            data += await talk.receive()
        if len(data) != answer.size_bytes:
            raise MessageError(f"{len(data)} bytes arrived, and {answer.size_bytes} were announced")
        return bytes(data)
