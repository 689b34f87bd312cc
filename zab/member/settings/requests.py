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
        "How many requests may be outstanding. Beyond it, connections with outstanding requests are not read from.",
    )
    jute_max_buffer_bytes: int = setting(
        "jute.maxbuffer",
        1_048_575,
        integer(1, INT_MAX),
        "bytes",
        "A longer frame is refused. This limits a znode's data, a session's ephemerals and a request's ACLs.",
    )
    oversize_request_bytes: int = setting(
        "oversizeRequestBytes",
        16 * _MIB,
        integer(0, INT_MAX),
        "bytes",
        "zab only. A request longer than jute.maxbuffer gets an error up to this size; a longer one ends its "
        "connection. A setWatches may have 256 MiB.",
    )
    max_acl_entries: int = setting(
        "maxAclEntries",
        ACL_COUNT_MAX,
        integer(1, ACL_ENTRIES_MAX),
        "entries",
        "zab only. A longer ACL is refused with INVALIDACL. Existing ACLs stay.",
    )
    multi_max_parts: int = setting(
        "multiMaxParts",
        MULTI_PARTS_MAX,
        COUNT,
        "parts",
        "zab only. A multi with more parts is refused with BADARGUMENTS. A removeRecursive removes at most as "
        "many znodes.",
    )
    max_watches_per_connection: int = setting(
        "maxWatchesPerConnection",
        200_000,
        COUNT,
        "watches",
        "zab only. A connection that sets more watches is closed. A recursive cache of 100,000 znodes needs "
        "two for each.",
    )
    watch_limit_bytes: int = setting(
        "watchLimitBytes",
        128 * _MIB,
        BYTES,
        "bytes",
        "zab only. The limit on the watches of one connection: 400 bytes each, and their paths. Beyond it, "
        "the connection is closed.",
    )
    total_watch_limit_bytes: int = setting(
        "totalWatchLimitBytes",
        2048 * _MIB,
        BYTES,
        "bytes",
        "zab only. The limit on the watches of all connections. Beyond it, the connections that use the most are "
        "closed.",
    )
    max_changes_per_connection: int = setting(
        "maxChangesPerConnection",
        64,
        COUNT,
        "requests",
        "zab only. How many getChanges of a connection may wait. One more is refused with THROTTLEDOP.",
    )
    max_changes_page_bytes: int = setting(
        "maxChangesPageBytes",
        256 * 1024,
        BYTES,
        "bytes",
        "zab only. The size of an answer to getChanges. One change always fits.",
    )
    max_changes_wait_ms: int = setting(
        "maxChangesWaitMs",
        30_000,
        COUNT_OR_0,
        "ms",
        "zab only. How long a getChanges with nothing to report may wait.",
    )
    max_past_acls: int = setting(
        "maxPastAcls",
        50_000,
        COUNT,
        "paths",
        "zab only. How many ACLs of deleted restricted znodes are kept for getChanges. Only a superuser sees "
        "changes before that.",
    )
