"""The properties of a run that its seed decides: swarm testing.

Each run has some faults and not others, each at its own rate, and its own sizes and limits. A run with all faults at
once never gets far; many runs, each with a few frequent faults, reach much more.

Limits are small, so that events that take days in production happen in seconds: epochs run out of counters, logs roll,
snapshots are taken, retention removes batches that learners need, so that they get a snapshot.

Times are in ticks of the run, like the limits of the protocol, so that a run with a long tick has as many ticks.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from random import Random

import attrs

from zab.member.settings.zoo_cfg import Config, parse
from zab.quorum.ids import ServerId
from zab.simulator.world.schedule import MS

FAULTS = (
    "kill",
    "power",
    "blackout",
    "outage",
    "kill_at_effect",
    "power_at_operation",
    "disk_error",
    "pause",
    "reset",
    "partition",
    "one_way",
    "slow_link",
    "slow_disk",
    "wall_jump",
    "wipe",
    "wrong_tree",
    "depose",
)
"""Faults of members and between them; `faults` has their functions."""
CLIENT_FAULTS = ("leave", "move", "silent", "stall", "close")
"""Misbehaviour of clients."""

SELDOM = (
    "bit_flip",
    "misdirected_write",
    "rollback",
    "full_disk",
    "hung_disk",
    "stranger",
    "bridge",
    "one_sided_loss",
)
"""Rare faults: most runs have none of these, so that they get far."""

DISK_LOW_BYTES = 20_000
"""The free space of a disk that is nearly full; its reserve is as large."""

_ELECTION = ("election_loss", "election_one_way", "election_double")
"""Additional faults of some runs."""

ASKED_FOR = ("election_stranger",)
"""Faults that only happen in runs whose scope names them."""

_ALWAYS_POSSIBLE = ("kill", "power", "partition")
_FOCUSED = {
    "lagging": {"thin_link": 6, "outage": 1, "pause": 1},
    "deposing": {"depose": 1},
    "crashing": {"power_at_operation": 6, "disk_error": 2, "kill": 1, "reset": 1},
    "returning": {"slow_link": 6, "reset": 1, "kill": 1},
    "racing": {"race": 8, "depose": 2, "kill": 1, "reset": 1},
    "changing": {"reconfigure": 8, "hand_over": 2, "kill": 2, "power": 1, "outage": 1, "depose": 1, "partition": 1},
}
_RESHAPING = {
    "reconfigure_all": 8,
    "reconfigure": 4,
    "install": 8,
    "hand_over": 3,
    **dict.fromkeys(("kill", "power", "outage", "depose", "partition", "kill_at_effect", "power_at_operation"), 2),
    **dict.fromkeys(("pause", "race", "wipe"), 2),
    **dict.fromkeys(("one_way", "reset", "slow_disk", "slow_link", "blackout", "bridge", "one_sided_loss"), 1),
    **dict.fromkeys(("wrong_tree", "disk_error"), 1),
}
"""The faults of runs with the focus `reshaping`, which always have the first one."""
_RECURRING = {"restore": 4, "recover": 3}
"""Additional faults of runs in which lineages end."""
FAULT_NAMES = frozenset(
    {
        *FAULTS,
        *SELDOM,
        *_ELECTION,
        *ASKED_FOR,
        *CLIENT_FAULTS,
        *_RESHAPING,
        *_RECURRING,
        *(kind for kinds in _FOCUSED.values() for kind in kinds),
    }
)
"""The names of all faults; some happen only in runs with a focus, or only if a scope names them."""


@attrs.frozen
class Profile:
    """The properties of one run. Rates are weights; faults that are not in `faults` do not happen."""

    seed: int
    voters: int
    observers: int
    groups: tuple[tuple[int, ...], ...]
    """Groups of a hierarchical quorum; empty: a majority."""
    weightless: frozenset[int]
    """Voters of weight 0."""
    tick_ms: int
    init_limit: int
    sync_limit: int
    counter_limit: int
    snap_count: int
    segment_kib: int
    recent_bytes: int
    pinned_log_bytes: int
    batch_count_max: int
    batches_in_flight_max: int
    outstanding_count_max: int
    latency_us: int
    """The one-way latency between members, without jitter."""
    jitter_us: int
    disk_us: int
    turn_us: int
    """The least duration of a member's turn."""
    drift_ppm: int
    """The maximum drift of the members' clocks."""
    clients: int
    think_us: int
    """The time between two bursts of a client."""
    fault_ticks: int
    """How long faults happen."""
    fault_gap_us: int
    """The average time between two faults."""
    faults: dict[str, int]
    client_faults: dict[str, int]
    """Rates of misbehaviour of clients: leave, move, go silent, stall, close; per thousand actions."""
    session_ticks: int
    long_data: bool
    focus: str
    """`deposing`: leaders are repeatedly cut off, while clients mostly send syncs and writes. `crashing`: machines
    repeatedly lose power at disk operations. `returning`: links are slow, and clients impatiently go back and forth
    between two servers. `lagging`: links are thin, epochs are short, and leaders keep little, so that lagging learners
    need a snapshot. `racing`: members repeatedly have accidents in discovery or synchronization. `changing`: servers
    leave, come back and change their roles, and the lead is handed over; no durable data is lost. `reshaping`,
    `recurring`: see below. Most runs have no focus: anything may happen in them."""
    markers: frozenset[int]
    """Voters that their operators declare, with the file `initialize`, to be new, before their first start."""
    marks_the_wiped: bool
    """Whether operators also declare wiped members to be new. This is not true, and must not matter."""
    is_merciless: bool = False
    """Whether lasting faults are never mended, and more disks may be lost than an ensemble can go on without."""
    readers: int = 0
    """How many clients accept read-only mode if they find no server with a quorum."""
    unlisted: int = 0
    """Servers that are in no other server's file."""
    has_groups: bool = False
    """Whether later configurations may have groups and weights."""
    retires_removed: bool = False
    """Whether servers in no configuration are not started again once the faults are over."""
    lets_clients_work: bool = False
    """Whether most faults wait until some writes have succeeded, but not for ever: with faults in quick succession, no
    leader would serve long enough to handle requests."""
    has_address_books: bool = False
    """Whether a member dials only the servers in its configurations."""
    has_short_way: bool = True
    """Whether members take messages of the steady state at once (`zab.protocol.short_way`), in every other seed. The
    run is the same if not."""
    is_compiled: bool = True
    """Whether trees use what is compiled (`datatree.compiled`), in two of four seeds. The run is the same if not."""
    further: tuple[tuple[str, str | int], ...] = ()
    """Additional or replaced lines of the configuration."""

    @property
    def tick_us(self) -> int:
        return self.tick_ms * MS

    @property
    def sids(self) -> list[ServerId]:
        """Voters, then observers, then unlisted servers."""
        return [ServerId(sid) for sid in range(1, self.voters + self.observers + self.unlisted + 1)]

    def config(self, sid: int) -> Config:
        """The configuration of one member, read by the server's parser. The file is the same for all, except that an
        unlisted server also has a line for itself."""
        return attrs.evolve(_read("\n".join(self._lines(sid))), server_id=sid)

    def _lines(self, own: int) -> list[str]:
        settings = {
            "dataDir": "/data",
            "clientPort": 2181,
            "tickTime": self.tick_ms,
            "initLimit": self.init_limit,
            "syncLimit": self.sync_limit,
            "minSessionTimeout": 2 * self.tick_ms,
            "maxSessionTimeout": 40 * self.tick_ms,
            "snapCount": self.snap_count,
            "preAllocSize": self.segment_kib,
            "counterLimit": self.counter_limit,
            "maxBatchBytes": 4096,
            "maxBatchCount": self.batch_count_max,
            "maxBatchesInFlight": self.batches_in_flight_max,
            "maxUnsyncedBytes": 65536,
            "maxRecentBytes": self.recent_bytes,
            "maxPinnedLogBytes": max(self.pinned_log_bytes, self.segment_kib * 1024),
            "maxClientCnxns": 0,
            "diskLowBytes": DISK_LOW_BYTES,
            "diskReserveBytes": DISK_LOW_BYTES,
            "globalOutstandingLimit": self.outstanding_count_max,
            "extendedTypesEnabled": "true",
            "znode.container.checkIntervalMs": 7 * self.tick_ms,
            "nio.sessionlessCnxnTimeout": 10 * self.tick_ms,
            **dict(self.further),
        }
        lines = [f"{key}={value}" for key, value in settings.items()]
        named = self.voters + self.observers
        for sid in [*range(1, named + 1), *([own] if own > named else [])]:
            role = "participant" if sid <= self.voters else "observer"
            lines.append(f"server.{sid}=10.0.0.{sid}:2888:3888:{role}")
        for number, group in enumerate(self.groups, 1):
            lines.append(f"group.{number}={':'.join(map(str, group))}")
        lines += [f"weight.{sid}=0" for sid in sorted(self.weightless)]
        return lines


@lru_cache(maxsize=8)
def _read(text: str) -> Config:
    return parse(text, "zoo.cfg", my_id=1)


def draw(seed: int, rng: Random) -> Profile:
    """The profile of a seed."""
    profile = _with_seldom(_draw(seed, rng), rng)
    profile = attrs.evolve(profile, has_short_way=seed % 2 == 0, is_compiled=seed % 4 < 2)
    if not profile.focus:
        profile = attrs.evolve(profile, faults={**profile.faults, **_of_elections(seed)})
    # From a generator of its own, so that all other runs stay the same.
    if not profile.focus and not profile.groups and Random(f"{seed}/changing").random() < 0.1:
        return changing(profile)
    if profile.observers and not profile.focus and Random(f"{seed}/masters").random() < 0.5:
        return with_observer_masters(profile)
    return profile


def _of_elections(seed: int) -> dict[str, int]:
    """Faults of election connections, in some runs, besides all others."""
    rng = Random(f"{seed}/elections")
    return {kind: rng.choice((1, 2, 5)) for kind in _ELECTION if rng.random() < 0.5} if rng.random() < 0.3 else {}


def with_observer_masters(profile: Profile) -> Profile:
    """The profile with two observers that follow masters, which keep little for them."""
    rng = Random(f"{profile.seed}/masters")
    lines = ("observerMasterPort", 2191), ("observerMaster.sizeLimit", rng.choice((3000, 1 << 25)))
    delay = ("observer.reconnectDelayMs", rng.choice((0, profile.tick_ms)))
    near = rng.choice(((), (("observerMaster.near", "2,1"),)))
    return attrs.evolve(profile, observers=2, further=(*profile.further, *lines, delay, *near))


def changing(profile: Profile) -> Profile:
    """The profile with an ensemble that is reconfigured."""
    further = (*profile.further, ("reconfigEnabled", "true"))
    return attrs.evolve(profile, focus="changing", faults=_FOCUSED["changing"], weightless=frozenset(), further=further)


def reshaping(profile: Profile) -> Profile:
    """The profile with an ensemble whose voters change all the time, with as much durable data lost meanwhile as the
    voters tolerate, and outdated files. Some servers are in no file but their own."""
    rng = Random(f"{profile.seed}/reshaping")
    voters = rng.choice((3, 3, 4, 5))
    observers = rng.choice((0, 1, 2) if voters < 5 else (0, 1))
    unlisted = rng.choice((0, 0, 1, 2) if voters < 5 else (0, 0, 1))
    further: list[tuple[str, str | int]] = [
        ("reconfigEnabled", "true"),
        ("standaloneEnabled", rng.choice(("true", "false"))),
    ]
    if rng.random() < 0.3:
        further += [("observerMasterPort", 2191), ("observerMaster.sizeLimit", 3000)]
    return attrs.evolve(
        profile,
        voters=voters,
        observers=observers,
        unlisted=unlisted,
        groups=(),
        weightless=frozenset(),
        markers=frozenset(sid for sid in profile.markers if sid <= voters),
        focus="reshaping",
        lets_clients_work=True,
        has_groups=rng.random() < 0.4,
        has_address_books=rng.random() < 0.7,
        retires_removed=rng.random() < 0.5,
        faults={
            **{kind: weight for kind, weight in _RESHAPING.items() if kind == "reconfigure_all" or rng.random() < 0.55},
            **_of_elections(profile.seed),
        },
        fault_ticks=rng.choice((30, 45, 60)),
        fault_gap_us=profile.tick_us * rng.choice((1, 1, 2)) // rng.choice((1, 2)),
        further=(*profile.further, *further),
    )


def recurring(profile: Profile) -> Profile:
    """The profile with lineages that repeatedly end, by restoring a snapshot or recovering one copy. Servers of old
    lineages continue in them, and come back."""
    profile = reshaping(profile)
    faults = {**profile.faults, **_RECURRING}
    return attrs.evolve(profile, focus="recurring", faults=faults, snap_count=min(profile.snap_count, 20))


FOCUSES: Mapping[str, Callable[[Profile], Profile]] = {
    "changing": changing,
    "reshaping": reshaping,
    "recurring": recurring,
}
"""The focuses that any run may be given. No seed has `reshaping` or `recurring` by itself."""


def _with_seldom(profile: Profile, rng: Random) -> Profile:
    """The profile with rare properties."""
    if not profile.focus and rng.random() < 0.08:
        return attrs.evolve(profile, focus="racing", faults=_FOCUSED["racing"])
    if not profile.focus and not profile.groups and rng.random() < 0.06:
        profile = attrs.evolve(profile, voters=7)
    if not profile.focus and rng.random() < 0.5:
        seldom = {kind: rng.choice((2, 5, 10)) for kind in SELDOM if rng.random() < 0.4}
        profile = attrs.evolve(profile, faults={**profile.faults, **seldom})
    return profile


def without_mercy(profile: Profile) -> Profile:
    """The profile with a longer run and more time between two faults, without mending."""
    return attrs.evolve(
        profile,
        is_merciless=True,
        fault_ticks=profile.fault_ticks * 3,
        fault_gap_us=profile.fault_gap_us * 2,
    )


def _draw(seed: int, rng: Random) -> Profile:
    groups: tuple[tuple[int, ...], ...] = ()
    weightless = frozenset[int]()
    voters = rng.choice((3, 3, 3, 5))
    if rng.random() < 0.12:
        voters, groups = 5, ((1, 2, 3), (4,), (5,))
        if rng.random() < 0.5:
            weightless = frozenset({3})
    (focus,) = rng.choices(("lagging", "", "deposing", "crashing", "returning"), (1, 7, 1, 1, 1))
    is_deposing = focus == "deposing"
    is_lagging = focus == "lagging"
    tick_ms = 1000 if is_deposing else rng.choice((100, 300, 1000))
    tick_us = tick_ms * MS
    return Profile(
        seed=seed,
        voters=voters,
        observers=1 if rng.random() < 0.2 and not groups else 0,
        groups=groups,
        weightless=weightless,
        tick_ms=tick_ms,
        init_limit=rng.choice((6, 10)),
        sync_limit=rng.choice((2, 3, 5)),
        counter_limit=60 if is_lagging else rng.choice((15, 60, 0xFFF00000, 0xFFF00000)),
        snap_count=6 if is_lagging else rng.choice((6, 20, 60, 300)),
        segment_kib=1 if is_lagging else rng.choice((1, 2, 8)),
        pinned_log_bytes=rng.choice((1024, 1 << 30)) if is_lagging else 1 << 30,
        recent_bytes=4096 if is_lagging else rng.choice((4096, 8192, 1 << 20)),
        batch_count_max=rng.choice((1, 3) if is_lagging else (1, 3, 50, 1000)),
        batches_in_flight_max=rng.choice((2, 8, 64)),
        outstanding_count_max=rng.choice((4, 50, 1000)),
        latency_us=500 if is_deposing else rng.choice((100, 500, tick_us // 100, tick_us // 25)),
        jitter_us=rng.choice((50, 500, tick_us // 50)),
        disk_us=rng.choice((100, 1000, tick_us // 40)),
        turn_us=rng.choice((40, 500, 2000)),
        drift_ppm=rng.choice((0, 200, 20_000)),
        clients=4 if is_deposing or is_lagging else rng.choice((2, 3, 4, 5)),
        think_us=tick_us * (30 if is_deposing or is_lagging else rng.choice((50, 100, 200))) // 100,
        fault_ticks=rng.choice((12, 20, 30)),
        fault_gap_us=tick_us if focus in ("crashing", "returning") else tick_us * rng.choice((1, 2, 3, 6)),
        faults=_FOCUSED.get(focus) or _swarm(rng, FAULTS, _ALWAYS_POSSIBLE),
        client_faults=_swarm(rng, CLIENT_FAULTS, ("move",)),
        session_ticks=rng.choice((3, 5, 8)),
        long_data=rng.random() < 0.3,
        focus=focus,
        markers=frozenset(sid for sid in range(1, voters + 1) if rng.random() < 0.8)
        if rng.random() < 0.4
        else frozenset(),
        marks_the_wiped=rng.random() < 0.4,
    )


def _swarm(rng: Random, kinds: tuple[str, ...], likely: tuple[str, ...]) -> dict[str, int]:
    chosen = {kind: rng.choice((1, 1, 3, 8)) for kind in kinds if rng.random() < 0.4}
    return chosen or dict.fromkeys(likely, 1)
