"""The guard of each request that clients may send: what it needs, as Kafka's brokers ask for it.

A request without a row here is not served (`zab.partition.requests.dispatch`). Metadata, Fetch and the topics of
Produce are decided by their handlers, which know the names of topics that are given by their ids.

The page `docs/reference/broker-settings.md` has the same as a table.
"""

from __future__ import annotations

from collections.abc import Callable

from zab.kafka.api_key import ApiKey
from zab.partition.guards import cluster, consumer_groups, groups, topics, transactions
from zab.partition.guards.parts import by_handler, free
from zab.partition.image.cluster_image import ClusterImage
from zab.partition.requests.dispatch import Guard


def guards_of(image: Callable[[], ClusterImage]) -> dict[int, Guard]:
    """By API key."""
    return {
        ApiKey.API_VERSIONS: free,
        ApiKey.SASL_HANDSHAKE: free,
        ApiKey.SASL_AUTHENTICATE: free,
        ApiKey.PRODUCE: topics.produce,
        ApiKey.FETCH: by_handler,
        ApiKey.METADATA: by_handler,
        ApiKey.LIST_OFFSETS: topics.list_offsets,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: topics.offset_for_leader_epoch,
        ApiKey.DELETE_RECORDS: topics.delete_records,
        ApiKey.DESCRIBE_PRODUCERS: topics.describe_producers,
        ApiKey.CREATE_TOPICS: topics.create_topics,
        ApiKey.CREATE_PARTITIONS: topics.create_partitions,
        ApiKey.DELETE_TOPICS: topics.delete_topics(image),
        ApiKey.FIND_COORDINATOR: groups.find_coordinator,
        ApiKey.JOIN_GROUP: groups.join,
        ApiKey.SYNC_GROUP: groups.sync,
        ApiKey.HEARTBEAT: groups.heartbeat,
        ApiKey.LEAVE_GROUP: groups.leave,
        ApiKey.OFFSET_COMMIT: groups.commit,
        ApiKey.OFFSET_FETCH: groups.fetch_offsets,
        ApiKey.OFFSET_DELETE: groups.delete_offsets,
        ApiKey.DESCRIBE_GROUPS: groups.describe,
        ApiKey.LIST_GROUPS: groups.list_groups,
        ApiKey.DELETE_GROUPS: groups.delete,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_groups.heartbeat,
        ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups.describe,
        ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
        ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions,
        ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets,
        ApiKey.END_TXN: transactions.end,
        ApiKey.TXN_OFFSET_COMMIT: transactions.commit_offsets,
        ApiKey.WRITE_TXN_MARKERS: transactions.write_markers,
        ApiKey.DESCRIBE_TRANSACTIONS: transactions.describe,
        ApiKey.LIST_TRANSACTIONS: transactions.list_transactions,
        ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
        ApiKey.DESCRIBE_CONFIGS: cluster.describe_configs,
        ApiKey.ALTER_CONFIGS: cluster.alter_configs,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: cluster.alter_configs,
        ApiKey.ELECT_LEADERS: cluster.elect_leaders,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster.reassign,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster.list_reassignments,
        ApiKey.DESCRIBE_LOG_DIRS: cluster.describe_log_dirs,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster.describe_quotas,
        ApiKey.ALTER_CLIENT_QUOTAS: cluster.alter_quotas,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster.describe_users,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster.alter_users,
        ApiKey.DESCRIBE_ACLS: cluster.describe_acls,
        ApiKey.CREATE_ACLS: cluster.create_acls,
        ApiKey.DELETE_ACLS: cluster.delete_acls,
    }
