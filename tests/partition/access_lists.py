"""A broker with an authorizer, whose anonymous clients are super users, and clients that are not."""

from typing import Final

from tests.partition.one_broker import OneBroker
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from zab.partition.access.acls import CLUSTER_NAME, Operation, Pattern, ResourceType

AUTHORIZER = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\n"
LINES = f"{AUTHORIZER}super.users=User:ANONYMOUS\n"
ALICE: Final = "User:alice"
DENY, ALLOW = 2, 3

TOPIC, GROUP, CLUSTER, TRANSACTION = ResourceType
READ, WRITE, DESCRIBE, ALTER = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER


def guarded(lines=""):
    """A broker with an authorizer."""
    return OneBroker(LINES + lines)


def named(rig, principal=ALICE, host="10.0.0.1"):
    """A client that has logged in as this principal."""
    client = rig.client(host)
    client.connection.principal = principal
    return client


def creation(operation, type_, name=CLUSTER_NAME, principal=ALICE, *, host="*", allows=True, pattern=Pattern.LITERAL):
    return AclCreation(
        resource_type=type_,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=ALLOW if allows else DENY,
    )


def allow(rig, *creations):
    """A super user has these rows added."""
    results = rig.client().ask(CreateAclsRequest(creations=creations), 3).results
    assert [each.error_code for each in results] == [ErrorCode.NONE] * len(creations)


def forget_all(rig):
    """A super user has all rows removed."""
    anything = DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    [result] = rig.client().ask(DeleteAclsRequest(filters=(anything,)), 3).filter_results
    assert not result.error_code
    return result.matching_acls
