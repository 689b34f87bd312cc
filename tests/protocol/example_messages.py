"""Messages of every kind."""

from zab.protocol import member_message as mmsg
from zab.protocol import message as msg

CHAIN = bytes(range(16))

EXAMPLES: list[msg.Message] = [
    msg.Notification(0, 3, 0x100000007, 1, 5, CHAIN, False, 2, False, True, False),
    msg.Notification(2, 3, 0, 0, 1, b"", True, 0, True, False, False),
    msg.FollowerInfo(4, CHAIN, 1, False, True, False, False),
    msg.ObserverInfo(3, 4, CHAIN, 1, False, False),
    msg.LeaderInfo(5, CHAIN),
    msg.AckEpoch(-1, 0x400000001, CHAIN),
    msg.Diff(0x400000001),
    msg.Trunc(0x400000001, CHAIN, True),
    msg.Snap(0x400000001, CHAIN, False),
    msg.Installed(0x400000001),
    msg.Proposal([b"one", b"two"]),
    msg.NewLeader(5, 0x400000001, False),
    mmsg.Suspect(0x400000001, 1 << 63),
    mmsg.Compare(0x400000001, True),
    mmsg.Compared(0x400000001, 0, False, False),
    mmsg.Verdict(0x400000001, 7),
    mmsg.TreeWanted(0x400000001),
    mmsg.TreeOffered(0x400000001, bytes(16)),
    msg.SessionKeys([[bytes(8), bytes(32)], [bytes(8), bytes(range(32))]]),
    msg.Readmit(3),
    msg.Readmitted(3),
    msg.Ack(5, 0x500000000),
    msg.UpToDate(0x400000001),
    msg.Commit(0x500000001),
    msg.Ping(0x500000001, 0x500000001, (1 << 64) - 1, [[-5, 30000], [7, 4000]], False),
    msg.Confirm(9),
    msg.Confirmed(9),
    msg.Refused("another ensemble"),
    mmsg.Request([[[[b"ip", b"127.0.0.1"]], [mmsg.WRITE_HEAD.pack(-1, 7, 5) + b"body"]]]),
    mmsg.Revalidate(7, -3, 4000),
    mmsg.Revalidated(7, True, 0x500000001),
    mmsg.Sync(12),
    mmsg.Synced(12, 0x500000001),
    msg.HandOver(2),
    msg.Attach(12, 4),
    msg.Attached(12),
    msg.Detach(12),
    msg.Relayed(12, msg.encode(mmsg.Sync(12))),
    msg.Config(b"server.1=localhost:2888:3888:participant\nversion=100000001", b""),
]
