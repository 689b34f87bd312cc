"""The settings of a simulated ensemble, which are those of real ones in the kit, and the faults that it may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from zab.simulator.ensemble.clients.external_clients import EXTERNAL_CLIENT_FAULTS
from zab.simulator.ensemble.members.profile import CLIENT_FAULTS, FAULT_NAMES, Profile
from zab.testing.settings import DEFAULTS, Value

MEMBER_FAULTS: Final = FAULT_NAMES - set(CLIENT_FAULTS)
FAULTS: Final = frozenset({*MEMBER_FAULTS, *EXTERNAL_CLIENT_FAULTS})
"""All that can go wrong by itself; docs/explanation/simulator.md has the first, the others are lost connections and
sessions."""


def checked_faults(faults: Iterable[str], every_seconds: float) -> list[str]:
    """The faults, in one order however they are given. Raises ValueError."""
    if not every_seconds > 0:
        raise ValueError(f"something goes wrong every so many seconds: more than 0, not {every_seconds}")
    if isinstance(faults, str):
        raise ValueError(f"faults are a list of names, such as [{faults!r}]")
    wanted = sorted(set(faults))
    unknown = [name for name in wanted if name not in FAULTS]
    if unknown:
        raise ValueError(f"no fault is named {unknown[0]!r}; there are {', '.join(sorted(FAULTS))}")
    return wanted


def profile_of(
    seed: int, size: int, observers: int, faults: dict[str, int], gap_us: int, configuration: Mapping[str, Value]
) -> Profile:
    """Members as they are configured in real ensembles of the kit, on a fast network and good disks."""
    ticks = {key: configuration.get(key, DEFAULTS[key]) for key in ("tickTime", "initLimit", "syncLimit")}
    try:
        tick_ms, init_limit, sync_limit = (int(value) for value in ticks.values())
    except ValueError:
        raise ValueError(f"tickTime, initLimit and syncLimit are whole numbers, not {ticks}") from None
    if min(tick_ms, init_limit, sync_limit) < 1:
        raise ValueError(f"tickTime, initLimit and syncLimit are at least 1, not {ticks}")
    further: dict[str, Value] = {
        "maxSessionTimeout": DEFAULTS["maxSessionTimeout"],
        "znode.container.checkIntervalMs": 60_000,
        "maxBatchBytes": 1 << 20,
        "maxUnsyncedBytes": 16 << 20,
        **({"standaloneEnabled": "false"} if size == 1 else {}),
        **configuration,
    }
    return Profile(
        seed=seed,
        voters=size,
        observers=observers,
        groups=(),
        weightless=frozenset(),
        tick_ms=tick_ms,
        init_limit=init_limit,
        sync_limit=sync_limit,
        counter_limit=0xFFF00000,
        snap_count=100_000,
        segment_kib=1024,
        recent_bytes=1 << 20,
        pinned_log_bytes=1 << 30,
        batch_count_max=1000,
        batches_in_flight_max=64,
        outstanding_count_max=1000,
        latency_us=200,
        jitter_us=200,
        disk_us=500,
        turn_us=40,
        drift_ppm=0,
        clients=0,
        think_us=0,
        fault_ticks=0,
        fault_gap_us=gap_us,
        faults=faults,
        client_faults={},
        session_ticks=0,
        long_data=False,
        focus="",
        markers=frozenset(),
        marks_the_wiped=False,
        further=tuple((key, _plain(value)) for key, value in further.items()),
    )


def _plain(value: Value) -> str | int:
    return str(value).lower() if isinstance(value, bool) else value
