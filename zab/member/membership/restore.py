"""Makes the settings and the restored state of a peer, and the settings of writes, from the configuration and the disk.

Not here: recovery itself (`datatree.recovery.recover`), and the handling of damage (the host, before it makes a
member).
"""

from __future__ import annotations

from collections.abc import Callable

from datatree.log.zxid import Epoch, Zxid
from datatree.prepare_settings import PrepareSettings
from datatree.recovery.recovered import Recovered
from datatree.tree import DataTree
from zab.member.membership import reconfiguring
from zab.member.membership.reconfiguring import READER, servers
from zab.member.settings.config import Config
from zab.member.storage.snapshot_schedule import SnapshotSchedule
from zab.protocol.features import KEEPER_REMOVALS
from zab.protocol.peer import Peer
from zab.protocol.peer_settings import Restored, Settings
from zab.protocol.states import BATCHES, BEGINNING, FOUNDER, NOTHING, Holds
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Majority, Quorum

_STANDALONE_INIT_TICKS = 10
_STANDALONE_SYNC_TICKS = 5
_NO_LIMIT = 1 << 62
_CLOSE_SESSION_SPARE_BYTES = 64 << 10
"""The bytes that the frame of a closeSession, or of a removeRecursive, needs besides the paths that it deletes."""


def quorum_of(config: Config) -> Quorum:
    """The quorum rule of the configuration file; a standalone server is its own majority."""
    if config.is_standalone:
        return Majority(servers({config.server_id}))
    return reconfiguring.quorum_of(config.ensemble)


def settings_of(config: Config) -> Settings:
    """The peer's view of the configuration."""
    return Settings(
        sid=ServerId(config.server_id),
        quorum=quorum_of(config),
        servers=servers({config.server_id, *config.ensemble.servers}),
        observers=servers(config.ensemble.observers),
        tick_ms=config.timing.tick_time_ms,
        init_limit=config.timing.init_limit_ticks or _STANDALONE_INIT_TICKS,
        sync_limit=config.timing.sync_limit_ticks or _STANDALONE_SYNC_TICKS,
        counter_limit=config.batches.counter_limit,
        batches_in_flight_max=config.batches.max_batches_in_flight,
        unsynced_bytes_max=config.batches.max_unsynced_bytes,
        session_timeout_max_ms=config.timing.max_session_timeout_ms,
        recent_bytes_max=config.batches.max_recent_bytes,
        reader=READER,
        takes_unlisted=config.membership.reconfig_enabled,
        has_observer_masters=config.membership.observer_master_port > 0 and not config.is_standalone,
        observer_bytes_max=config.membership.observer_master_size_limit_bytes,
        near_observer_masters=tuple(map(ServerId, config.membership.observer_masters_near)),
        reconnect_delay_ms=config.membership.observer_reconnect_delay_ms,
    )


def restored_of(recovered: Recovered) -> Restored:
    """The peer's view of the disk. A damaged history may not be continued: a member that has one is an amnesiac."""
    assert recovered.amnesiac or not recovered.damage
    accepted, current = recovered.epochs or (0, 0)
    return Restored(
        lineage=recovered.lineage,
        accepted_epoch=Epoch(accepted),
        current_epoch=Epoch(current),
        mark=Zxid(recovered.mark),
        base=recovered.base,
        batches=recovered.recent,
        amnesiac=recovered.amnesiac,
        holds=_holds(recovered),
        marked=recovered.marked,
        beginning=Zxid(recovered.beginning),
        session_keys=recovered.session_keys,
        config=b"" if recovered.amnesiac else recovered.tree.configuration,
    )


def _holds(recovered: Recovered) -> Holds:
    if recovered.damage:
        return BATCHES  # perhaps none can be read, but no member may begin as if there had been none
    if recovered.empty:
        return NOTHING
    if recovered.last[0] != recovered.beginning:
        return BATCHES
    return FOUNDER if recovered.founder and not recovered.amnesiac else BEGINNING


def tree_of(recovered: Recovered) -> DataTree:
    """The tree to begin with. An amnesiac begins with an empty one, since its files prove nothing."""
    return DataTree() if recovered.amnesiac else recovered.tree


def newest_time_of(recovered: Recovered) -> int:
    """The time of the newest batch (ms since 1970); 0 if there is none."""
    return recovered.recent[-1].time if recovered.recent else 0


def schedule_of(config: Config, recovered: Recovered) -> SnapshotSchedule:
    """The snapshot schedule, which already counts the log after the newest snapshot."""
    size_kib = config.storage.snap_size_limit_kib
    schedule = SnapshotSchedule(
        count_max=config.storage.snap_count, bytes_max=size_kib * 1024 if size_kib > 0 else _NO_LIMIT
    )
    if not recovered.amnesiac:
        for batch in recovered.recent:
            if recovered.snapshot_zxid < batch.zxid <= recovered.mark:
                schedule.applied(batch)
    return schedule


def prepare_settings_of(
    config: Config, peer: Peer, tell_heir_later: Callable[[ServerId, int], None]
) -> PrepareSettings:
    """The settings of writes."""
    return PrepareSettings(
        extended_types=config.tree.extended_types_enabled,
        create_if_not_exists=config.tree.create_if_not_exists_enabled or config.tree.keeper_extensions_enabled,
        keeper_extensions=config.tree.keeper_extensions_enabled,
        sequence_64=config.tree.sequence_64_enabled,
        enforce_quota=config.tree.enforce_quota,
        skip_acl=config.access.skip_acl,
        local_sessions=config.has_local_sessions,
        acl_schemes=frozenset(scheme.encode() for scheme in config.acl_schemes),
        reconfigure=reconfiguring.reconfigure_of(config, peer),
        hand_over=reconfiguring.hand_over_of(config, peer, tell_heir_later),
        acl_bytes_max=config.requests.jute_max_buffer_bytes,
        acl_count_max=config.requests.max_acl_entries,
        multi_parts_max=config.requests.multi_max_parts,
        removed_bytes_max=max(1, config.requests.jute_max_buffer_bytes - _CLOSE_SESSION_SPARE_BYTES),
        is_removed_in_multis=lambda: peer.leading is not None and peer.leading.all_have(KEEPER_REMOVALS),
        ephemeral_path_bytes_max=max(1, config.requests.jute_max_buffer_bytes - _CLOSE_SESSION_SPARE_BYTES),
    )
