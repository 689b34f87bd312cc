"""The settings of auditors and workers, and what they say beside `Send` and `Submit`.

Both are told `ClientInput` (`zab.ledger.store.events`), also watches that fire, and say `Noted` for their operator.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import field, frozen
from attrs.validators import ge, instance_of, le

from zab.coordination.driver import Submit
from zab.ledger.store.events import Send

MIB: Final = 1 << 20
DAY_MS: Final = 86_400_000


@frozen
class CheckSettings:
    """How one ledger is checked."""

    sample_share: float = field(default=0.0, validator=[ge(0.0), le(1.0)])
    """So large a share of the entries of each member is read. The first and the last one are read in any case."""
    sample_max: int = field(default=1_000, validator=[instance_of(int), ge(0)])
    """The most entries of that share, for each member of a fragment."""
    reads_max: int = field(default=32, validator=[instance_of(int), ge(1)])
    """So many requests are under way at a time."""
    request_timeout_ms: int = field(default=5_000, validator=[instance_of(int), ge(1)])


@frozen
class AuditorSettings:
    """What an auditor does, and how often. Intervals of 0: never."""

    lost_bookie_delay_ms: int = field(default=0, validator=[instance_of(int), ge(0)])
    """How long a bookie may be away before its ledgers are marked, if nobody has written a delay yet
    (`lostBookieRecoveryDelay`). Minutes, where bookies are restarted: without a delay each restart copies all of it."""
    bookies_check_ms: int = field(default=DAY_MS, validator=[instance_of(int), ge(0)])
    """All ledgers are searched for lost bookies so often, besides each time that a bookie is lost."""
    ledgers_check_ms: int = field(default=7 * DAY_MS, validator=[instance_of(int), ge(0)])
    """Entries of all ledgers are read so often."""
    replicas_check_ms: int = field(default=0, validator=[instance_of(int), ge(0)])
    """Bookies are asked so often which entries they have, for all ledgers."""
    placement_check_ms: int = field(default=0, validator=[instance_of(int), ge(0)])
    """Ensembles are compared with the rule of racks so often."""
    orphans_check_ms: int = field(default=DAY_MS, validator=[instance_of(int), ge(0)])
    """Ledgers that belong to a managed ledger which does not name them are searched for so often."""
    ledgers_per_s: int = field(default=500, validator=[instance_of(int), ge(1)])
    """The metadata of so many ledgers are read each second."""
    retry_ms: int = field(default=10_000, validator=[instance_of(int), ge(1)])
    """When what the coordination service refused is tried again."""
    check: CheckSettings = CheckSettings()


@frozen
class WorkerSettings:
    """Limits of one worker."""

    bytes_per_s: int = field(default=20 * MIB, validator=[instance_of(int), ge(1)])
    """So many bytes are copied each second."""
    window_bytes: int = field(default=MIB, validator=[instance_of(int), ge(1)])
    """So many bytes are read ahead in each run of entries; one entry is always allowed."""
    runs_max: int = field(default=4, validator=[instance_of(int), ge(1)])
    """So many runs of entries are copied at a time."""
    run_entries: int = field(default=256, validator=[instance_of(int), ge(1)])
    """The most entries of one run."""
    request_timeout_ms: int = field(default=5_000, validator=[instance_of(int), ge(1)])
    busy_max: int = field(default=5, validator=[instance_of(int), ge(0)])
    """So often in a row a bookie may answer an entry with TOO_MANY_REQUESTS; after that it has failed."""
    busy_ms: int = field(default=200, validator=[instance_of(int), ge(1)])
    """When such a bookie is asked again."""
    open_grace_ms: int = field(default=30_000, validator=[instance_of(int), ge(0)])
    """How long the writer of a ledger may take to replace a bookie of its last fragment, before the ledger is
    recovered, which fences the writer."""
    held_max: int = field(default=1_000, validator=[instance_of(int), ge(1)])
    """So many ledgers may wait for that at a time, each with its lock."""
    poll_ms: int = field(default=5_000, validator=[instance_of(int), ge(1)])
    """How often an idle worker looks for records."""
    retry_ms: int = field(default=9_375, validator=[instance_of(int), ge(1)])
    """How long a ledger that could not be repaired is left alone by this worker; doubles each time."""
    retry_max_ms: int = field(default=300_000, validator=[instance_of(int), ge(1)])
    failures_max: int = field(default=10_000, validator=[instance_of(int), ge(1)])
    """So many of these are remembered."""
    targets_max: int = field(default=5, validator=[instance_of(int), ge(1)])
    """So many bookies are tried for the place of one that is lost."""
    check: CheckSettings = CheckSettings()


@frozen
class Noted:
    """Something for the log of the host. `is_problem`: an operator should know."""

    text: str
    is_problem: bool = False


Effect: TypeAlias = Send | Submit | Noted
