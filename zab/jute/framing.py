"""The frames of a client connection: what each begins with, and which xids are special.

Format, in frames of `zab.wire.frames`:

    request         the first frame of a client is its ConnectRequest (`zab.jute.handshake`); every other one is
                    xid int, opcode int, body (`datatree.requests`)
    reply           the first frame of a server is its ConnectResponse; every other one is
                    xid int, zxid long, error int, body (`zab.jute.replies`)
    special xids    -1 notification, -2 ping, -4 auth, -8 setWatches; -16 and below: getChanges (this project's):
                    each has its own, because it is answered once there are changes; other requests count up from 1

Limit: the payload of one frame is ZooKeeper's `jute.maxbuffer`, 1,048,575 bytes by default.

Not here: what a body means; four-letter words, which a client sends instead of the first frame
(`zab.member.words.four_letter`).
"""

from struct import Struct
from typing import Final

FRAME_BYTES_MAX: Final = 0xFFFFF

NOTIFICATION_XID: Final = -1
PING_XID: Final = -2
AUTH_XID: Final = -4
SET_WATCHES_XID: Final = -8
CHANGES_XID_MAX: Final = -16

# xid, opcode: the first 8 bytes of a request's payload.
REQUEST_HEADER: Final = Struct(">ii")

_REQUEST: Final = Struct(">iii")


def request_frame(xid: int, opcode: int, body: bytes) -> bytes:
    """Encode one request as a frame, ready to be sent."""
    return _REQUEST.pack(8 + len(body), xid, opcode) + body
