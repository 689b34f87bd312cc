"""The codecs of BookKeeper 4.17.3 beside ours: what one writes the other reads, with the same meaning."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

import attrs
import pytest

from tests.downloads.kafka import jars
from tests.rigs.quick_java import QUICK
from tests.rigs.waiting import LONG_PATIENCE_SECONDS
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.cookies import Cookie, decode_cookie, encode_cookie
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zab.ledger.metadata.serialized import decode_metadata, encode_metadata
from zab.ledger.metadata.service_info import Endpoint, ServiceInfo, bookie_endpoint, encode_service_info
from zab.ledger.wire import v2
from zab.ledger.wire.availability import decode_runs, encode_runs
from zab.ledger.wire.client_channel import ClientChannel
from zab.ledger.wire.codec import ServerRequest, decode_request, encode_answer
from zab.ledger.wire.messages import (
    Added,
    AddEntry,
    BookieInfo,
    BookieInfoWanted,
    EntriesListed,
    EntryRead,
    ForceLedger,
    GetBookieInfo,
    LacRead,
    ListEntries,
    ReadBatch,
    ReadEntry,
    ReadLac,
    Request,
    StartTls,
    WriteLac,
    answer_without,
)
from zab.ledger.wire.status import Status

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

VERSION = "4.17.3"
PROGRAM = Path(__file__).parent / "clients" / "BookKeeperCodecs.java"
PASSWORDS = (b"", b"passwd", bytes(range(256)))
DIGEST = Digest(DigestType.CRC32C, b"passwd")
ENVELOPE = DIGEST.pack(Entry(1, 7, 6, 105, b"hello"))
KEY = DIGEST.master_key


def hexadecimal(data: bytes) -> str:
    return data.hex() or "-"


def asked(lines: list[str]) -> list[str]:
    """The answers of the original, one a line."""
    classes = jars(f"bookkeeper-server-{VERSION}", f"org.apache.bookkeeper:bookkeeper-server:{VERSION}")
    command = ["java", "-Xmx256m", *QUICK, "-classpath", f"{classes}/*", str(PROGRAM)]
    ran = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, timeout=LONG_PATIENCE_SECONDS, check=False
    )
    assert ran.returncode == 0, ran.stderr
    answers = [line[2:] for line in ran.stdout.splitlines() if line.startswith("> ")]
    assert len(answers) == len(lines), ran.stdout + ran.stderr
    return answers


def test_entries_keys_and_explicit_lacs() -> None:
    rng = Random(1)
    lines, expected = [], []
    for password in PASSWORDS:
        lines.append(f"key {hexadecimal(password)}")
        expected.append(Digest(DigestType.CRC32, password).master_key.hex())
        for kind in DigestType:
            digest = Digest(kind, password)
            entry = Entry(rng.randrange(1 << 62), rng.randrange(1, 1 << 62), -1, 5, rng.randbytes(rng.randrange(9)))
            entry = attrs.evolve(entry, last_confirmed=rng.randrange(-1, entry.entry))
            common = f"{kind.name} {hexadecimal(password)} {entry.ledger}"
            lines.append(f"pack {common} {entry.entry} {entry.last_confirmed} 5 {hexadecimal(entry.payload)}")
            expected.append(digest.pack(entry).hex())
            lines.append(f"open {common} {entry.entry} {digest.pack(entry).hex()}")
            expected.append(hexadecimal(entry.payload))
            packet = digest.pack_lac(entry.ledger, entry.entry)
            lines.append(f"lac {common} {entry.entry} {packet.hex()}")
            expected.append(f"{packet.hex()} {entry.entry}")
    assert asked(lines) == expected


def test_metadata_cookies_and_registrations() -> None:
    names = tuple(map(BookieId, ("b1:3181", "b2:3181", "b3:3181")))
    opened = LedgerMetadata(
        ensemble_size=3,
        write_quorum=2,
        ack_quorum=1,
        fragments=(Fragment(0, names), Fragment(5, names[::-1])),
        digest_type=DigestType.HMAC,
        password=bytes(range(256)),
        ctime_ms=1544002383075,
        custom={"application": b"zab\0\xff", "ümlaut": b""},
        token=17,
    )
    closed = opened.closed_at(9, 120)
    lines = attrs.evolve(
        closed, format_version=1, ack_quorum=2, has_password=False, custom={}, ctime_ms=None, token=None
    )
    lines = attrs.evolve(lines, digest_type=DigestType.CRC32, password=b"")
    values = [opened, closed, opened.recovering()]
    values += [attrs.evolve(each, format_version=2, token=None) for each in values]
    values += [lines, lines.recovering(), attrs.evolve(lines, state=LedgerState.OPEN, last=-1, length=0)]
    found = asked([f"metadata {encode_metadata(value).hex()}" for value in values])
    assert [decode_metadata(bytes.fromhex(answer)) for answer in found] == values

    cookies = [
        Cookie(names[0], ("/j1", "/j2"), ("/l 1", '/l"2\\', "/lü"), "instance", ("/i",)),
        Cookie(names[0], ("/j",), ("/l",)),
    ]
    found = asked([f"cookie {encode_cookie(cookie).hex()}" for cookie in cookies])
    assert [decode_cookie(bytes.fromhex(answer)) for answer in found] == cookies

    http = Endpoint("httpserver", 8080, "127.0.0.1", "http", ("sasl",), ("x", "y"))
    info = encode_service_info(ServiceInfo((bookie_endpoint("127.0.0.1", 3181, has_tls=True), http), {"rack": "/r1"}))
    assert asked([f"info {info.hex()}"]) == [info.hex()]


V2_REQUESTS: tuple[Request, ...] = (
    AddEntry(1, 7, KEY, ENVELOPE),
    AddEntry(1, 7, KEY, ENVELOPE, is_recovery=True, is_urgent=True),
    ReadEntry(1, 7),
    ReadEntry(1, -1, KEY, is_fencing=True, is_urgent=True),
    ReadBatch(1, 7, 10, 1000),
)


def test_frames_of_version_2() -> None:
    lines, expected = [], []
    for request in V2_REQUESTS:
        frame = ClientChannel(is_v2=True).encode(request)
        version, opcode, flags = v2.split_header(frame[4:])
        entry = request.first if isinstance(request, ReadBatch) else getattr(request, "entry")  # noqa: B009
        key = hexadecimal(getattr(request, "key", b""))
        lines.append(f"v2request {frame[4:].hex()}")
        expected.append(f"{version} {opcode} 1 {entry} {flags} {key}")
        decoded = decode_request(frame[4:])
        assert isinstance(decoded, ServerRequest)
        for status in Status:
            answer = encode_answer(decoded.reply_to, answer_without(request, status))
            lines.append(f"v2answer {answer[4:].hex()}")
            expected.append(f"2 {opcode} {v2.CODE_OF[status]} 1 {entry}")
    assert asked(lines) == expected


def test_frames_of_version_3() -> None:
    poll = ReadEntry(1, -1, previous_lac=6, wait_ms=100, wants_piggyback=True)
    asks: list[tuple[Request, object]] = [
        (AddEntry(1, 7, KEY, ENVELOPE, is_recovery=True, is_deferred=True, is_urgent=True), Added(Status.OK, 1, 7)),
        (ReadEntry(1, -1, KEY, is_fencing=True), EntryRead(Status.OK, 1, -1, ENVELOPE)),
        (poll, EntryRead(Status.OK, 1, 7, ENVELOPE, 9, 1544002383075)),
        (WriteLac(1, 7, KEY, DIGEST.pack_lac(1, 7)), answer_without(WriteLac(1, 7, KEY, b""), Status.OK)),
        (ReadLac(1), LacRead(Status.OK, 1, DIGEST.pack_lac(1, 7), ENVELOPE)),
        (GetBookieInfo(BookieInfoWanted.CAPACITY | BookieInfoWanted.FREE), BookieInfo(Status.OK, 5, 4)),
        (ForceLedger(1), answer_without(ForceLedger(1), Status.OK)),
        (ListEntries(1), EntriesListed(Status.OK, 1, ((0, 2), (5, 5)))),
        (StartTls(), answer_without(StartTls(), Status.OK)),
    ]
    lines = []
    for request, answer in asks:
        frame = ClientChannel(is_v2=False).encode(request)
        lines.append(f"v3request {frame[4:].hex()}")
        decoded = decode_request(frame[4:])
        assert isinstance(decoded, ServerRequest)
        answers = [answer, *(answer_without(request, status) for status in Status)]
        lines += [f"v3answer {encode_answer(decoded.reply_to, each)[4:].hex()}" for each in answers]  # type: ignore[arg-type]
    assert asked(lines) == [line.split()[1] for line in lines]


def test_lists_of_entries() -> None:
    runs = ((0, 2), (5, 5), (1000, 1099))
    entries = [entry for first, last in runs for entry in range(first, last + 1)]
    (found,) = asked([f"list {','.join(map(str, entries))}"])
    assert decode_runs(bytes.fromhex(found)) == runs
    assert encode_runs(runs).hex() == found
