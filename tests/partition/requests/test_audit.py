"""The audit log of a broker: who asked for what, and what came of it; secrets are in no line."""

from tests.partition.one_broker import OneBroker, metadata
from zab.kafka.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from zab.kafka.messages.handshake import SaslAuthenticateRequest, SaslHandshakeRequest
from zab.kafka.messages.scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from zab.kafka.messages.topics import CreatableTopic, CreateTopicsRequest
from zab.partition.requests.audit import NAMES_MAX
from zab.partition.requests.configs import SET, TOPIC_RESOURCE

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
ON = "audit.enable=true\n"
LOGIN = (
    "listeners=SASL_PLAINTEXT://127.0.0.1:2\nsasl.enabled.mechanisms=PLAIN\n"
    f'listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} required user_al="open sesame";\n'
)


def lines(rig):
    return [line.replace("\t", " ") for record in rig.audit for line in record.lines("me")]


def create(client, *names):
    topics = tuple(
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()) for name in names
    )
    client.send(CreateTopicsRequest(topics=topics), 7)


def test_administrative_requests_have_a_line_with_their_names_and_errors():
    rig = OneBroker(ON)
    client = rig.client()
    create(client, "a", "b,\n")
    config = IncrementalAlterableConfig(name="retention.ms", config_operation=SET, value="1000")
    resource = IncrementalAlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name="a", configs=(config,))
    client.send(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1)
    client.send(metadata("a"), 12)
    who = "user=User:ANONYMOUS ip=10.0.0.1 operation="
    assert lines(rig) == [
        f"{who}createTopics names=a,b\\x2c\\n errors=INVALID_TOPIC_EXCEPTION result=failure",
        f"{who}incrementalAlterConfigs names=a result=success",
    ]


def test_a_user_is_named_and_its_secrets_are_not():
    rig = OneBroker(ON)
    alice = ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"saltsalt", salted_password=b"secret"
    )
    rig.client().send(AlterUserScramCredentialsRequest(deletions=(), upsertions=(alice,)), 0)
    assert lines(rig) == [
        "user=User:ANONYMOUS ip=10.0.0.1 operation=alterUserScramCredentials names=alice result=success"
    ]


def test_a_failed_login_has_a_line_and_later_lines_have_the_user():
    rig = OneBroker(ON + LOGIN)
    for password in (b"guess", b"open sesame"):
        client = rig.client(listener="SASL_PLAINTEXT")
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0al\0" + password), 2)
    create(client, "a")
    failed, created = lines(rig)
    why = "there is no such user, or it has another password"
    assert failed == f"ip=10.0.0.1 operation=login scheme=PLAIN reason={why} result=failure"
    assert created == "user=User:al ip=10.0.0.1 operation=createTopics names=a result=success"


def test_a_line_has_so_many_names_and_without_the_setting_there_is_none():
    rig = OneBroker(ON)
    create(rig.client(), *(f"t{number}" for number in range(NAMES_MAX + 1)))
    [line] = lines(rig)
    assert f",t{NAMES_MAX - 1} " in line
    rig = OneBroker()
    create(rig.client(), "a")
    assert not lines(rig)
