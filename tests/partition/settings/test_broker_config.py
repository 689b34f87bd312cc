"""The file of a broker: what is read, warned about, and refused."""

import pytest

from zab.partition.settings.broker_config import BrokerConfigError, read_config

KAFKAS_OWN = """\
# As Kafka's distribution has it.
broker.id=0
#listeners=PLAINTEXT://:9092
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kafka-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.retention.check.interval.ms=300000
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""


def test_the_file_of_kafkas_distribution_is_read():
    config = read_config(KAFKAS_OWN)
    assert (config.broker.broker_id, config.broker.log_directory) == (0, "/tmp/kafka-logs")
    assert config.broker.servers == "localhost:2181"
    assert config.groups.initial_delay_ms == 0
    assert config.topics.retention_ms == 604_800_000
    assert [warning.split(":")[0] for warning in config.warnings] == [
        *("line 4", "line 5", "line 6", "line 7", "line 11", "line 18"),
    ]


@pytest.mark.parametrize(
    ("text", "retention_ms"),
    [
        ("log.retention.hours=1", 3_600_000),
        ("log.retention.hours=1\nlog.retention.minutes=1", 60_000),
        ("log.retention.ms=1\nlog.retention.minutes=1", 1),
        ("log.retention.hours=-1", -1),
    ],
)
def test_the_shortest_unit_counts(text, retention_ms):
    assert read_config(text).topics.retention_ms == retention_ms


def test_an_unknown_key_is_named_with_the_one_that_it_is_like():
    [warning] = read_config("\nnum.partitons=3\n").warnings
    assert warning == "line 2: num.partitons: the key is unknown and has no effect; num.partitions is known"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("broker.id=x", r"line 1: broker\.id: 'x' is not a whole number"),
        ("\nlog.retention.ms=-5", r"line 2: log\.retention\.ms: -5 is not between"),
        ("log.retention.hours=soon", r"line 1: log\.retention\.hours: 'soon' is not"),
        ("ssl.provider=P", "line 1: ssl.provider: it is not supported here"),
        ("sasl.oauthbearer.jwks.endpoint.url=x", "it is not supported here"),
        ("authorizer.class.name=x", "only kafka.security.authorizer.AclAuthorizer is supported"),
        ("super.users=User:alice", "super.users: it has no effect without authorizer.class.name"),
        ("super.users=alice", "'alice' is no principal"),
        ("super.users=User:*", "a super user is named"),
        ("principal.builder.class=x", "a client is named by its login"),
        ("process.roles=broker", "zookeeper.connect"),
        ("log.dirs=/a,/b", "there is one directory"),
        ("listeners=PLAINTEXT://:9092", "say here what clients are to connect to"),
        ("advertised.listeners=PLAINTEXT://a:1\nlisteners=SSL://b:1", "PLAINTEXT is none of the listeners"),
        ("broker.id=\\u00", "line 1"),
        ("group.consumer.migration.policy=both", "'both' is none of disabled, upgrade"),
        ("group.consumer.migration.policy=upgrade,downgrade", "it is one of disabled, upgrade"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_its_line(text, why):
    with pytest.raises(BrokerConfigError, match=why):
        read_config(text)


def test_who_may_do_what():
    assert read_config("").access.rules is None
    text = (
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\n"
        "super.users=User:alice; User:CN=bob,O=example\nallow.everyone.if.no.acl.found=true\n"
    )
    rules = read_config(text).access.rules
    assert rules.super_users == {"User:alice", "User:CN=bob,O=example"}
    assert rules.allows_without_list
    assert read_config("authorizer.class.name=\n").access.rules is None


OF_CLIENTS = "listeners=SSL://10.0.0.1:9093\nssl.keystore.location=k.pem\nssl.truststore.location=t.pem\n"
AUTHORIZER = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\n"


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("", False),
        ("listeners=PLAINTEXT://10.0.0.1:9092", True),
        ("listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://a:9092", True),
        ("listeners=PLAINTEXT://localhost:9092,SASL_PLAINTEXT://10.0.0.1:9093", False),
        ("listeners=SSL://10.0.0.1:9093\nssl.keystore.location=k.pem", True),
        (f"{OF_CLIENTS}ssl.client.auth=requested", True),
        (f"{OF_CLIENTS}ssl.client.auth=required", False),
        (f"listeners=PLAINTEXT://10.0.0.1:9092\n{AUTHORIZER}super.users=User:a", False),
        (f"{AUTHORIZER}", True),
        (f"{AUTHORIZER}allow.everyone.if.no.acl.found=true", False),
    ],
)
def test_doors_that_are_open(text, warned):
    assert bool(read_config(text).open_doors) == warned
