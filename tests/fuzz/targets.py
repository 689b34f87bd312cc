"""Every decoder of bytes that somebody else has made, as a target of the fuzzers.

Where there is a way back, what was decoded is encoded and decoded again, and has to be the same. What is decoded is not
larger than some multiple of what it was decoded from, so nothing is built that the bytes only announce:
`ITEMS_PER_BYTE`.

Not here: how bytes are made (`fuzzer` with coverage, `test_targets` with fixed seeds); whether native parts do the same
as Python (`native_targets`).
"""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Generator
from typing import cast
from zlib import adler32, crc32

from datatree import request_decoding, snapshot
from datatree.errors import Refused
from datatree.jute import JuteError, Reader
from datatree.log import session_keys
from datatree.log.batch import Batch, BatchError, parse
from datatree.log.epochs import DIRECTORY, load_epochs, load_mark, load_member, save_epochs
from datatree.log.frame import scan
from datatree.log.segment import read_index, read_segment_header
from datatree.opcodes import OpCode
from datatree.paths import is_valid, validate
from datatree.record import RecordError, Txn, decode_all, decode_in_slices, encode
from datatree.requests import SetWatches
from datatree.snapshot import SnapshotError, guarded_znodes, load_snapshot, snapshot_path
from datatree.zookeeper.files import ZooKeeperFileError
from datatree.zookeeper.log import LogReader, decode_payload, encode_record
from datatree.zookeeper.snapshot import SnapshotReader, uncompressed
from tests.datatree.example_txns import TXNS
from tests.datatree.histories import Author, fresh_log
from tests.datatree.histories import snapshot as write_snapshot
from tests.datatree.request_table import TABLE as REQUESTS_TABLE
from tests.fuzz import kafka_targets, native_targets, record_batch_targets
from tests.fuzz.target import TARGETS, Target, target
from tests.protocol.example_messages import EXAMPLES
from tests.rigs import java_key_stores
from tests.rigs.direct.members import Ensemble
from zab.configuration.properties import PropertiesError, parse_properties
from zab.jute.change_pages import read_page
from zab.jute.framing import request_frame
from zab.jute.handshake import ConnectRequest, ConnectResponse
from zab.jute.replies import ReplyHeader, WatcherEvent, decode_body
from zab.member.clients.long_requests import LongRequests
from zab.member.membership.election_receiver import ElectionReceiver
from zab.member.membership.greeting import AT_QUORUM_PORT, Purpose, party
from zab.member.settings.zoo_cfg import ConfigError
from zab.member.settings.zoo_cfg import parse as parse_config
from zab.member.storage.snapshot_request import ANSWERS, REQUESTS, SnapshotRequest, accepted, refused
from zab.member.words.four_letter import WORDS
from zab.protocol import message as msg
from zab.quorum.ids import ServerId
from zab.simulator.world.disk import FaultyDisk
from zab.tls.java_key_store import JavaKeyStoreError, read_java_key_store
from zab.tls.key_derivation import rounds_of
from zab.wire import plain
from zab.wire.frames import FrameError, FrameReader, frame
from zab.wire.handshake import NONCE_BYTES, Dialling, Listening, Secret
from zab.wire.records import MessageError
from zab.wire.seal import Seal

__all__ = ["TARGETS", "native_targets"]

ITEMS_PER_BYTE = 2
"""The limit for plain CBOR: each item has at least a byte."""
FRAME_BYTES_MAX = 1 << 16

__all__ = ["TARGETS", "Target", "kafka_targets", "native_targets", "record_batch_targets"]

# --------------------------------------------------------------------------------------------------------------- stores


_PKCS12 = "named-only.jks", "named-only-trusted.jks"
"""A keytool of today writes PKCS#12, whatever the file is called."""


@target(
    lambda: [path.read_bytes()[:-20] for path in sorted(java_key_stores.KEPT.glob("*.jks"))],
    JavaKeyStoreError,
)
def java_stores(data: bytes) -> None:
    """Whose digest is right."""
    found = read_java_key_store(java_key_stores.signed_by(java_key_stores.PASSWORD, data), java_key_stores.PASSWORD)
    for key in found.keys:
        assert len(key.opened(java_key_stores.PASSWORD)) < len(data)


@target(lambda: [(java_key_stores.KEPT / name).read_bytes() for name in _PKCS12], ValueError)
def rounds(data: bytes) -> None:
    """The limits of PKCS#12, before it is opened."""
    assert rounds_of(data) >= 0


# -------------------------------------------------------------------------------------------------------------- clients

REQUEST_EXAMPLES: list[tuple[int, bytes]] = [(int(row.values[0]), row.values[2]) for row in REQUESTS_TABLE]
OPCODES = sorted(request_decoding.DECODERS)


@target(lambda: [bytes([OPCODES.index(opcode)]) + body for opcode, body in REQUEST_EXAMPLES], JuteError)
def client_requests(data: bytes) -> None:
    """The first byte chooses the operation."""
    opcode = OPCODES[data[0] % len(OPCODES)] if data else OPCODES[0]
    body = request_decoding.decode(opcode, data, 1)
    encoded = body.encode()
    assert request_decoding.decode(opcode, encoded).encode() == encoded


@target(lambda: [bytes([OPCODES.index(opcode)]) + body for opcode, body in REQUEST_EXAMPLES])
def client_replies(data: bytes) -> None:
    """What a client makes of what a server says."""
    opcode = OPCODES[data[0] % len(OPCODES)] if data else OPCODES[0]
    data = data or b"\0"
    with contextlib.suppress(JuteError):
        decode_body(opcode, data, 1)
    with contextlib.suppress(JuteError):
        ReplyHeader.decode(data)
    with contextlib.suppress(JuteError):
        WatcherEvent.decode(data, 0)


@target(
    lambda: [
        ConnectRequest(5, 4000, 7, bytes(16)).encode(),
        ConnectRequest(0, 1, 0, b"", has_read_only=False).encode(),
    ],
    JuteError,
)
def client_handshake(data: bytes) -> None:
    asked = ConnectRequest.decode(data)
    assert ConnectRequest.decode(asked.encode()) == asked


@target(lambda: [ConnectResponse(4000, 7, bytes(16)).encode()], JuteError)
def server_handshake(data: bytes) -> None:
    ConnectResponse.decode(data)


@target(lambda: [bytes.fromhex("00000000 0000000000000000 0000000000000001 00000000 00000001 61 00000000")], JuteError)
def change_pages(data: bytes) -> None:
    page = read_page(Reader(data))
    assert len(page.rows) <= len(data)


def _listener() -> list[bytes]:
    hello = frame(ConnectRequest(0, 4000, 0, bytes(16)).encode())
    said = [frame(struct.pack(">ii", 1 + n, opcode) + body) for n, (opcode, body) in enumerate(REQUEST_EXAMPLES)]
    return [*WORDS, hello, *(hello + one for one in said), hello + b"".join(said[:12])]


@functools.cache
def _ensemble() -> Ensemble:
    dotted = {"4lw__commands__whitelist": "*", "jute__maxbuffer": FRAME_BYTES_MAX}
    return Ensemble(1, maxClientCnxns=0, keeperExtensionsEnabled="true", **dotted)


@target(_listener)
def client_bytes(data: bytes) -> None:
    """All that a client may say to a member that serves: it goes on, whatever that is."""
    ensemble = _ensemble()
    client = ensemble.client()
    client.take = lambda output: None  # type: ignore[method-assign]
    client.say(data)
    ensemble.settle()
    client.close()
    ensemble.settle()
    assert ensemble.servers[1].member.serving


_WATCHED_AGAIN = request_frame(-8, OpCode.SET_WATCHES, SetWatches(1, (b"/" * 99,) * 3, (), ()).encode())


@target(lambda: [frame(b"abc") + frame(b""), b"\xff\xff\xff\xff", frame(bytes(300)), _WATCHED_AGAIN], FrameError)
def frames(data: bytes) -> None:
    """Cut in two ways, they are the same."""
    whole, pieces = (FrameReader(200, LongRequests(200, 400)) for _ in range(2))
    found: list[bytes] = []
    try:
        expected = whole.feed(data)
    except FrameError as error:
        expected = error.frames
    with contextlib.suppress(FrameError):
        for at in range(len(data)):
            found += pieces.feed(data[at : at + 1])
    assert found == expected


@target(lambda: [b"/a/b", "/\u00f6/\u202e".encode(), b"/zookeeper/config", b"/a/../b"], Refused)
def paths(data: bytes) -> None:
    validate(data)
    assert is_valid(data)
    data.decode()


# -------------------------------------------------------------------------------------------------------------- members

SECRET = Secret(bytes(range(32)))


@target(lambda: [msg.encode(each) for each in EXAMPLES], plain.PlainError)
def plain_cbor(data: bytes) -> None:
    def count(item: object) -> int:
        return 1 + sum(map(count, item)) if isinstance(item, list) else 1

    assert count(plain.decode(data)) <= ITEMS_PER_BYTE * len(data)


@target(lambda: [msg.encode(each) for each in EXAMPLES], MessageError)
def member_messages(data: bytes) -> None:
    message = msg.decode(data)
    assert msg.decode(msg.encode(message)) == message


@target(lambda: [msg.encode(each) for each in (*EXAMPLES[:2], msg.Config(b"server.1=a", b"server.2=b"))])
def votes(data: bytes) -> None:
    told: list[str] = []
    ElectionReceiver(ServerId(1), told.append, is_proven=True).vote(data)


@target(
    lambda: [REQUESTS.encode(SnapshotRequest(bytes(16), 5, bytes(16), 0)), accepted(77), refused("no")], MessageError
)
def snapshot_requests(data: bytes) -> None:
    with contextlib.suppress(MessageError):
        REQUESTS.decode(data)
    ANSWERS.decode(data)


def _listening() -> Listening:
    return Listening(party(1, [SECRET], is_open=False), {2, 3}, AT_QUORUM_PORT, b"l" * NONCE_BYTES)


def _dialling() -> Dialling:
    return Dialling(party(2, [SECRET], is_open=False), 1, Purpose.QUORUM, b"d" * NONCE_BYTES)


def _handshakes() -> list[bytes]:
    dialling, listening = _dialling(), _listening()
    hello = dialling.hello()
    welcome = listening.welcome(hello)
    proof, _ = dialling.welcomed(welcome)
    return [frame(hello) + frame(proof), frame(hello) + frame(b""), frame(welcome), frame(proof) + frame(hello)]


@target(_handshakes, MessageError, FrameError)
def handshake_listener(data: bytes) -> None:
    """Only the proof that goes with these nonces lets anybody in."""
    listening, reader = _listening(), FrameReader(4096)
    payload = reader.feed_one(data)
    while payload is not None:
        if listening.has_welcomed:
            listening.proven(payload)
            assert data.startswith(_handshakes()[0])
            return
        listening.welcome(payload)
        payload = reader.feed_one(b"")


@target(_handshakes, MessageError)
def handshake_dialler(data: bytes) -> None:
    dialling = _dialling()
    hello = dialling.hello()
    dialling.welcomed(data[4:])
    assert data[4:] == _listening().welcome(hello)


@target(lambda: [Seal(bytes(32)).put(b"abc"), Seal(bytes(32)).put(b"")], MessageError)
def seals(data: bytes) -> None:
    payload = Seal(bytes(32)).take(data)
    assert Seal(bytes(32)).put(payload) == data


# ---------------------------------------------------------------------------------------------------------------- files


def _batches() -> list[Batch]:
    author = Author()
    return [author.batch(count) for count in (1, 3, 2)]


@target(lambda: [batch.raw for batch in _batches()], BatchError)
def batches(data: bytes) -> None:
    assert data.startswith(parse(data).raw)


@target(lambda: [encode(txn) for txn in TXNS.values()], RecordError)
def transactions(data: bytes) -> None:
    first = int.from_bytes(data[7:15], "big") if len(data) >= 15 else 1
    found = decode_all(data, first, 1)
    assert b"".join(map(encode, found)) == data
    assert _made_by(decode_in_slices(data, first)) == found


def _made_by(steps: Generator[None, None, list[Txn]]) -> list[Txn]:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast("list[Txn]", done.value)


def _file(data: bytes, path: str) -> FaultyDisk:
    disk = FaultyDisk()
    disk.replace(path, data)
    return disk


@functools.cache
def _log_file() -> tuple[bytes, int]:
    disk = FaultyDisk()
    log = fresh_log(disk)
    for batch in _batches():
        log.append([batch])
    log.idle()
    path = log.segments[0].path
    return disk.read(path), _batches()[0].first


@target(lambda: [_log_file()[0]])
def log_frames(data: bytes) -> None:
    _, first = _log_file()
    read_segment_header(data, first)
    scanned = scan(data, first, 64)
    assert sum(len(part.batches) for part in scanned.parts if hasattr(part, "batches")) <= len(data)
    read_index(data, crc32(data))


@functools.cache
def _snapshot_file() -> tuple[bytes, int]:
    author = Author()
    for _ in range(6):
        author.batch(2)
    disk = FaultyDisk()
    path = write_snapshot(disk, author.tree, author.last[1])
    return disk.read(path), author.tree.applied


@target(lambda: [_snapshot_file()[0]], SnapshotError)
def snapshots(data: bytes) -> None:
    path = snapshot_path(_snapshot_file()[1])
    _, tree = load_snapshot(_file(data, path), path)
    assert tree.digest == tree.recompute_digest()


def _chunks() -> list[bytes]:
    data, zxid = _snapshot_file()
    path = snapshot_path(zxid)
    reader = snapshot.SnapshotReader.open(_file(data, path), path)
    return [struct.pack(">I", count) + entries for _, count, entries in reader.chunks()]


@target(_chunks, SnapshotError)
def snapshot_chunks(data: bytes) -> None:
    """Behind checksums that are right: the first four bytes are the count of entries."""
    whole, zxid = _snapshot_file()
    if len(data) < 5:
        return
    head = whole[: snapshot.HEADER_BYTES]
    chunk = snapshot._CHUNK.pack(len(data) - 4, int.from_bytes(data[:4], "big"))
    checksum = crc32(data[4:], crc32(chunk, snapshot._CRC.unpack_from(head, snapshot._HEAD.size)[0]))
    trailer = whole[-snapshot.TRAILER_BYTES : -2 * snapshot._CRC.size] + snapshot._CRC.pack(checksum)
    end = bytes(4) + trailer + snapshot._CRC.pack(crc32(trailer))
    made = head + chunk + snapshot._CRC.pack(checksum) + data[4:] + end
    path = snapshot_path(zxid)
    disk = _file(made, path)
    with contextlib.suppress(SnapshotError):
        for _ in guarded_znodes(disk, path):
            pass
    load_snapshot(disk, path)


def _small_files() -> list[bytes]:
    disk = FaultyDisk()
    save_epochs(disk, 5, 4)
    session_keys.save_session_keys(disk, bytes(16), [session_keys.NamedKey(b"12345678", bytes(32))])
    return [disk.read(f"{DIRECTORY}/{name}") for name in ("acceptedEpoch", "currentEpoch", "sessionKeys")]


@target(_small_files)
def small_files(data: bytes) -> None:
    """A damaged one is none."""
    for name, load in (
        ("acceptedEpoch", load_epochs),
        ("currentEpoch", load_epochs),
        ("member", load_member),
        ("committed", load_mark),
        ("sessionKeys", lambda disk: session_keys.load_session_keys(disk, bytes(16))),
    ):
        load(_file(data, f"{DIRECTORY}/{name}"))


ZK_LOG_MAGIC = b"ZKLG" + struct.pack(">iq", 2, 0)


def _zookeeper_records() -> list[bytes]:
    return [encode_record(txn) for txn in TXNS.values() if txn.type != 13]


@target(lambda: [ZK_LOG_MAGIC + b"".join(_zookeeper_records()), ZK_LOG_MAGIC + bytes(50)], ZooKeeperFileError)
def zookeeper_logs(data: bytes) -> None:
    for _ in LogReader([data], "log.1"):
        pass


@target(lambda: [record[12:-1] for record in _zookeeper_records()], ZooKeeperFileError)
def zookeeper_transactions(data: bytes) -> None:
    """Behind a checksum that is right."""
    decode_payload(data, "log.1", 0)


@functools.cache
def _zookeeper_snapshot() -> bytes:
    out = b"ZKSN" + struct.pack(">iq", 2, -1) + struct.pack(">i", 1) + struct.pack(">qi", 77, 4000)
    out += struct.pack(">i", 1) + struct.pack(">q", 1) + struct.pack(">i", 1)
    out += struct.pack(">i", 31) + struct.pack(">i", 5) + b"world" + struct.pack(">i", 6) + b"anyone"
    for path in (b"", b"/a"):
        out += struct.pack(">i", len(path)) + path + struct.pack(">i", 1) + b"x" + struct.pack(">q", 1)
        out += struct.pack(">qqqqiiiqq", 1, 1, 0, 0, 0, 0, 0, 0, 1)
    return _sealed(out + END)


END = struct.pack(">i", 1) + b"/"


def _sealed(data: bytes) -> bytes:
    return data + struct.pack(">q", adler32(data)) + END


@target(
    lambda: [_zookeeper_snapshot(), _sealed(_zookeeper_snapshot() + struct.pack(">qiq", 5, 2, 9))], ZooKeeperFileError
)
def zookeeper_snapshots(data: bytes) -> None:
    for _ in SnapshotReader(uncompressed([data], "snapshot.1"), "snapshot.1"):
        pass


CONFIG = b"""dataDir=/var/lib/zab
clientPort=2181
tickTime=2000
initLimit=10
syncLimit=5
maxClientCnxns=0x10
quorum.secretFile=/etc/zab/secret
4lw.commands.whitelist=srvr, mntr
DigestAuthenticationProvider.superDigest=super:abc=
server.1=a.example:2888:3888:participant;0.0.0.0:2181
server.2=[::1]:2889:3889:observer;2182
server.3=127.0.0.1:2890:3890
group.1=1:2
group.2=3
weight.1=2
"""


@target(lambda: [CONFIG, CONFIG.replace(b"=", b" : "), b"a=b\\\n  c\\u00e9", b"sslQuorum=true\ndataDir=x"], ConfigError)
def configurations(data: bytes) -> None:
    """zoo.cfg."""
    parse_config(data.decode("latin-1"), "zoo.cfg", my_id=1)


@target(lambda: [line + b"\n" for line in CONFIG.splitlines()[9:]], ConfigError)
def dynamic_files(data: bytes) -> None:
    """The file that dynamicConfigFile names."""
    text = "dataDir=/d\ninitLimit=5\nsyncLimit=5\nclientPort=1\ndynamicConfigFile=dynamic\n"
    parse_config(text, "zoo.cfg", my_id=1, dynamic_text=data.decode("latin-1"))


@target(lambda: [CONFIG], PropertiesError)
def properties(data: bytes) -> None:
    parse_properties(data.decode("latin-1"))
