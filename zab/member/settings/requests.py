"""What one request, and one client, may ask for."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from datatree.acl import ACL_COUNT_MAX
from datatree.prepare_settings import MULTI_PARTS_MAX
from datatree.request_decoding import ACL_ENTRIES_MAX
from zab.configuration.fields import BYTES, COUNT, COUNT_OR_0, INT_MAX, integer, setting

_MIB: Final = 1024 * 1024


@frozen(kw_only=True)
class RequestSettings:
    """The limits on frames, ACLs, multis, watches and the feed of changes."""

    global_outstanding_limit_count: int = setting(
        "globalOutstandingLimit",
        1000,
        COUNT,
        "requests",
        "In process at once; beyond, connections with some under way are not read from.",
    )
    jute_max_buffer_bytes: int = setting(
        "jute.maxbuffer",
        1_048_575,
        integer(1, INT_MAX),
        "bytes",
        "A longer frame is refused; bounds a znode's data, a session's ephemerals, a request's ACLs.",
    )
    oversize_request_bytes: int = setting(
        "oversizeRequestBytes",
        16 * _MIB,
        integer(0, INT_MAX),
        "bytes",
        "Ours. A request above jute.maxbuffer up to so many bytes gets an error; a longer one ends its connection. "
        "A setWatches may have 256 MiB.",
    )
    max_acl_entries: int = setting(
        "maxAclEntries",
        ACL_COUNT_MAX,
        integer(1, ACL_ENTRIES_MAX),
        "entries",
        "Ours. A longer list is refused with INVALIDACL; lists that are there already stay.",
    )
    multi_max_parts: int = setting(
        "multiMaxParts",
        MULTI_PARTS_MAX,
        COUNT,
        "parts",
        "Ours. A multi of more is refused whole, with BADARGUMENTS. A removeRecursive removes no more.",
    )
    max_watches_per_connection: int = setting(
        "maxWatchesPerConnection",
        200_000,
        COUNT,
        "watches",
        "Ours. A recursive cache of 100,000 znodes needs two each; beyond, the connection is closed.",
    )
    watch_limit_bytes: int = setting(
        "watchLimitBytes",
        128 * _MIB,
        BYTES,
        "bytes",
        "Ours. Watches of one connection, 400 each and their paths; beyond, it is closed.",
    )
    total_watch_limit_bytes: int = setting(
        "totalWatchLimitBytes",
        2048 * _MIB,
        BYTES,
        "bytes",
        "Ours. Watches of all connections; beyond, those with most are closed.",
    )
    max_changes_per_connection: int = setting(
        "maxChangesPerConnection",
        64,
        COUNT,
        "requests",
        "Ours. getChanges of one connection that wait; a further one is refused with THROTTLEDOP.",
    )
    max_changes_page_bytes: int = setting(
        "maxChangesPageBytes",
        256 * 1024,
        BYTES,
        "bytes",
        "Ours. An answer to getChanges ends there, so that other answers are not kept waiting; one change always fits.",
    )
    max_changes_wait_ms: int = setting(
        "maxChangesWaitMs",
        30_000,
        COUNT_OR_0,
        "ms",
        "Ours. A getChanges with nothing to tell is answered after this at the latest.",
    )
    max_past_acls: int = setting(
        "maxPastAcls",
        50_000,
        COUNT,
        "paths",
        "Ours. Of restricted znodes that are gone, for getChanges; beyond, what is older is the superuser's alone.",
    )
