"""Which versions of which requests a server serves, and which it lists in its answer to ApiVersions.

A client uses the highest version that both sides have. So the maxima are those of Kafka 2.x and 3.x on purpose:

- Produce 11 and EndTxn 4 announce the second flavour of transactions; Produce 13, OffsetCommit 10 and OffsetFetch 10
  name topics by id only; ListOffsets 9 is about tiered storage.
- The maxima of FindCoordinator, EndTxn, AddPartitionsToTxn, TxnOffsetCommit, DeleteTopics and CreateTopics are the only
  versions of them that some clients have: they must never be lowered.

**Produce is listed from 0 on and served from 3 on.** librdkafka before 2.11.1 drops gzip, snappy and lz4 silently if 0
is not listed, and never sends it. Versions 0 to 2 carry formats of records that nothing here reads.

Not here: the layouts of versions (`messages`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import attrs

from zab.kafka.api_key import ApiKey
from zab.kafka.apis import APIS
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.handshake import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey


@attrs.frozen
class Versions:
    """What is listed of one API, and what is served. Each is a lowest and a highest version, both inclusive."""

    listed: tuple[int, int]
    served: tuple[int, int]

    def serves(self, version: int) -> bool:
        return self.served[0] <= version <= self.served[1]


_LISTED_ONLY: Final = {ApiKey.PRODUCE: (0, 10)}
"""Where more is listed than is served."""

VERSIONS: Final[dict[int, Versions]] = {
    key: Versions(_LISTED_ONLY.get(api.key, api.versions), api.versions) for key, api in APIS.items()
}

BETWEEN_BROKERS: Final = frozenset(
    {
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_PARTITION,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }
)
"""What only brokers send to each other: listed and served only where they connect."""

FROM_CONTROLLER: Final = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA})
"""Layouts for reference. Neither listed nor served to anybody."""

CONSUMER_GROUP_PROTOCOL: Final = frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE})
"""KIP-848: listed and served by a server that has these groups."""

FOR_CLIENTS: Final = frozenset(APIS) - BETWEEN_BROKERS - FROM_CONTROLLER - CONSUMER_GROUP_PROTOCOL
"""What every client may send."""

GROUP_VERSION: Final = "group.version"
"""The feature by whose level Kafka's tools know that a cluster has groups of KIP-848: 1, or 0 where it has not."""
LEVEL_0_SINCE: Final = 4
"""The version of ApiVersions from which on a feature may have a lowest level of 0."""
FEATURES_EPOCH: Final = 0
"""Features are those of the software, and never change."""


def api_versions_response(version: int, keys: Collection[int] = FOR_CLIENTS) -> tuple[int, ApiVersionsResponse]:
    """The answer to ApiVersions of `version`, with what `keys` lists in ascending order; and the version in which that
    answer is written.

    A version that is not served is answered in that of version 0, with error 35 and the whole list: the client then
    comes back with a version that both have.
    """
    serves = VERSIONS[ApiKey.API_VERSIONS].serves(version)
    rows = tuple(
        ApiVersion(api_key=key, min_version=VERSIONS[key].listed[0], max_version=VERSIONS[key].listed[1])
        for key in sorted(keys)
    )
    error = ErrorCode.NONE if serves else ErrorCode.UNSUPPORTED_VERSION
    if not set(keys) >= CONSUMER_GROUP_PROTOCOL:
        return version if serves else 0, ApiVersionsResponse(error_code=error, api_keys=rows)
    # Java's clients before 3.9, which send a lower version, take a lowest level of 0 for an error (KIP-584).
    supported = (SupportedFeatureKey(name=GROUP_VERSION, min_version=0, max_version=1),)
    answer = ApiVersionsResponse(
        error_code=error,
        api_keys=rows,
        supported_features=supported if version >= LEVEL_0_SINCE else (),
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=(FinalizedFeatureKey(name=GROUP_VERSION, max_version_level=1, min_version_level=1),),
    )
    return version if serves else 0, answer
