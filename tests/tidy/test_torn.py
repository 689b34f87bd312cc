"""Torn tables and lists are found, and whole ones are not taken for torn."""

import pytest

from tests.tidy.torn import torn_lists, torn_tables

JOINED_ROWS = """\
    push(piece, is_urgent)  queues a whole piece (frame), which no other piece interrupts; callers with many pieces
    append to `ordinary` or `urgent` and add to `unsent_bytes` directly flush(send)             calls `send` once with
    the joined pieces; what the socket did not take stays as a view flush(send, pieces, …)  the same with more ordinary
    pieces: if nothing is queued, they go straight to the socket
"""
WHOLE_ROWS = """\
    push(piece, is_urgent)  queues a whole piece (frame), which no other piece interrupts; callers with many pieces
                            append to `ordinary` or `urgent` and add to `unsent_bytes` directly
    flush(send)             calls `send` once with the joined pieces; what the socket did not take stays as a view
    flush(send, pieces, …)  the same with more ordinary pieces: if nothing is queued, they go straight to the socket
    send_all_pieces_of_a_frame(send)
                            the same for one frame
"""
CONTINUATION_AT_THE_MARGIN = """\
    wiped       an empty disk, as after a repair of the machine. The member knows that, and so it counts nowhere until
    it is told
"""
COLUMNS_OF_CODE = """\
    server = ScriptedServers(nursery, script)                   # `script(peer)` runs once per connection, in order of
    connect(HOSTS, dial=server.dial)
"""
JOINED_ITEMS = """\
- Wait until a server is there. What waits takes `wait_s`. - **Nothing remains.** A caller that is cancelled
  leaves no znode.
"""
JOINED_NUMBERS = """\
1. Stop all members. 2. Write the lines into all files.
3. Start them.
"""
ITEM_AT_THE_MARGIN = """\
- If a program renames it, the next chunk creates a new file; a truncated file
continues from its beginning.
"""
WHOLE_LIST = """\
1. Stop all members, at version 1. Then
   wait for 5 - 2 * 1 seconds.
2. Write `a - b`.
   - An item within.

After it.
"""


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (JOINED_ROWS, [1, 2, 3]),
        (CONTINUATION_AT_THE_MARGIN, [1]),
        (WHOLE_ROWS, []),
        (COLUMNS_OF_CODE, []),
    ],
)
def test_torn_tables_are_found(text: str, wrong: list[int]) -> None:
    assert [number for number, _ in torn_tables(text.splitlines())] == wrong


@pytest.mark.parametrize(
    ("text", "wrong"), [(JOINED_ITEMS, [0]), (JOINED_NUMBERS, [0]), (ITEM_AT_THE_MARGIN, [1]), (WHOLE_LIST, [])]
)
def test_torn_lists_are_found(text: str, wrong: list[int]) -> None:
    assert [number for number, _ in torn_lists(text.splitlines())] == wrong
