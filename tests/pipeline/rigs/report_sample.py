"""Facts of an ensemble made up for the tests of the report: everything that it can show, with hostile names."""

from __future__ import annotations

import datetime
import math
from random import Random

from zab.pipeline.report.facts import (
    EnsembleFacts,
    Epoch,
    Health,
    Histogram,
    HotPath,
    LockRow,
    Locks,
    MemberFacts,
    Problem,
    Scale,
    Sessions,
    Sizes,
    Subtree,
    Wave,
)

SINCE = datetime.datetime(2026, 11, 1, 12, 0, tzinfo=datetime.UTC)
BUCKETS = 96
HOSTILE = "/app/<script>alert('x')</script>&amp;\"--> $\\frac{1}{2}$ \u202eevil\x07"


def sample_facts(ensemble: str = "prod-eu") -> EnsembleFacts:
    """A day with a wave of expiry at three quarters, two changes of leader and a member with problems."""
    source = Random(5)
    scale = Scale(SINCE, 900_000, BUCKETS)
    day = [1 + 0.6 * math.sin((index - 20) / BUCKETS * 2 * math.pi) for index in range(BUCKETS)]
    writes = {
        "create": tuple(int(9000 * load * source.uniform(0.9, 1.1)) for load in day),
        "change": tuple(int(40_000 * load * source.uniform(0.9, 1.1)) for load in day),
        "delete": tuple(int(8000 * load * source.uniform(0.9, 1.1)) for load in day),
        "session": tuple(400 if index != 72 else 6000 for index in range(BUCKETS)),
        "refused": tuple(int(1500 * load) if 60 < index < 66 else 200 for index, load in enumerate(day)),
    }
    at = scale.starts
    epochs = (
        Epoch(7, at[0], 0x700000001, 0x7000F4240, 1_000_000),
        Epoch(8, at[31], 0x800000001, 0x8000C3500, 800_000),
        Epoch(9, at[72], 0x900000001, 0x9001E8480, 2_000_000),
    )
    operations = sum(map(sum, writes.values()))
    return EnsembleFacts(
        ensemble=ensemble,
        since=at[0],
        until=at[-1],
        first_zxid=0x700000001,
        last_zxid=0x9001E8480,
        transactions=3_800_000,
        operations=operations,
        refused=sum(writes["refused"]),
        scale=scale,
        writes=writes,
        epochs=epochs,
        sessions=Sessions(
            opened=1830,
            closed=1600,
            expired=57,
            open_at_end=173,
            open_counts=tuple(int(200 * load) - (60 if 72 <= index < 76 else 0) for index, load in enumerate(day)),
            expired_counts=tuple(48 if index == 72 else 9 if index == 30 else 0 for index in range(BUCKETS)),
            waves=(Wave(at[72], 48, 211), Wave(at[30], 9, 12)),
            median_life_ms=2_700_000,
        ),
        hot=(
            HotPath("/app/jobs/counter", 812_000, 9_400_000),
            HotPath(HOSTILE, 403_000, 40_300_000),
            HotPath("/kafka/brokers/topics/very-long-topic-name-of-a-tenant/partitions/113/state", 99_000, 12_000_000),
            *(HotPath(f"/app/workers/{index:04d}/heartbeat", 9000 - 300 * index, 90_000) for index in range(9)),
        ),
        path_count=48_211,
        locks=Locks(
            rows=(
                LockRow("/app/locks/resize", 4100, 12, 3.4, 812.0, 40_000.0, 61_000.0, 0),
                LockRow(HOSTILE, 210, 4, 2.2, 5400.0, 900.0, 6100.0, 1),
                LockRow("/app/election", 3, 3, None, None, 40_000_000.0, None, 0),
            ),
            lock_count=3,
            hold_count=4313,
            overlap_count=1,
            median_handover_ms=3.4,
            longest_handover_ms=5400.0,
            handovers=Histogram(
                tuple(float(2**power) for power in range(-1, 14)),
                (12, 300, 900, 1400, 800, 320, 180, 90, 60, 30, 8, 4, 1, 2),
            ),
        ),
        sizes=Sizes(
            values=Histogram(
                (0.0, 1.0, *(float(2**power) for power in range(2, 18, 2))),
                (4000, 12_000, 200_000, 900_000, 1_400_000, 300_000, 20_000, 900, 40),
            ),
            written_bytes=412_000_000,
            largest_bytes=61_000,
            largest_path="/app/config/all",
            snapshot_zxid=0x9001E0000,
            znodes=48_000,
            data_bytes=6_200_000,
            subtrees=(
                Subtree("/app", 31_000, 4_100_000),
                Subtree("/kafka", 16_000, 2_000_000),
                Subtree(HOSTILE, 7, 100_000),
            ),
        ),
        members=tuple(
            MemberFacts(
                member=str(number),
                kind="native",
                log_count=20 + number,
                log_bytes=1_300_000_000,
                snapshot_count=3,
                snapshot_bytes=21_000_000,
                first_zxid=0x700000001,
                last_zxid=0x9001E8480,
                count=3_800_000 - 1000 * (number == 3),
                coverage=tuple(
                    (0.0 if number == 3 and 32 < index < 41 else 0.4 if number == 3 and index in (32, 41) else 1.0)
                    for index in range(BUCKETS)
                ),
            )
            for number in (1, 2, 3)
        ),
        health=Health(
            problems=(
                Problem(
                    "3",
                    "damaged",
                    "checksum of the batch body does not match",
                    "file:///data/3/version-1/log.80001e000",
                    184_220,
                    0x80001E201,
                    at[50],
                ),
                Problem(
                    "2",
                    "differs",
                    f"a different value from members 1 and 3 at {HOSTILE}",
                    zxid=0x900000123,
                    time=at[73],
                ),
            ),
            problem_count=2,
            checked="Compared were 3 members: bytes of every transaction, gaps, order, chains, snapshots.",
        ),
    )
