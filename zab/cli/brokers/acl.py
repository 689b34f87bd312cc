"""`zab broker acl`: the access lists of brokers, as Kafka's `kafka-acls.sh` has them.

A row says what a principal may do (or, with `--deny`, may not do) with a resource, from an address. Without
`--topic`, `--group` or `--transactional-id` the resource is the cluster; for `list` and `remove`, any.

Not here: the znodes of an ensemble (`zab acl`), which have lists of their own.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from attrs import frozen

from zab.cli.brokers.clients import Brokers, carry_out
from zab.cli.brokers.refusals import RefusedError
from zab.cli.columns import columns
from zab.cli.json_form import JsonOption, json_line
from zab.cli.terminal import in_line, say
from zab.cli.time_limit import timed
from zab.partition.access.acls import CLUSTER_NAME, Operation, ResourceType

__all__ = ["acl_app"]

acl_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_HEAD: Final = ("resource", "name", "pattern", "principal", "host", "operation", "permission")
_OPERATIONS: Final = {each.text.lower(): each for each in Operation}

PrincipalArgument = Annotated[
    str, typer.Argument(metavar="PRINCIPAL", help="A principal, such as User:alice; User:* means everybody.")
]
OperationsArgument = Annotated[
    str, typer.Argument(metavar="OPERATION,…", help="Operations, such as read,write or describeConfigs, or all.")
]
SomeOperationsArgument = Annotated[
    str | None, typer.Argument(metavar="[OPERATION,…]", help="Only these.", show_default=False)
]
TopicOption = Annotated[str | None, typer.Option("--topic", metavar="NAME", help="A topic; '*' means every topic.")]
GroupOption = Annotated[str | None, typer.Option("--group", metavar="NAME", help="A group of consumers.")]
IdOption = Annotated[str | None, typer.Option("--transactional-id", metavar="NAME", help="A transactional id.")]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="The cluster.")]
PrefixedOption = Annotated[bool, typer.Option("--prefixed", help="Every name with the prefix NAME.")]
HostOption = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Only from this address.")]


@acl_app.callback()
def _acl() -> None:
    """Access lists of the brokers at --bootstrap-server, which is an option of zab."""


@frozen
class _Resource:
    """What rows are about; None: anything."""

    type: ResourceType | None
    name: str | None
    is_prefixed: bool


def _resource(
    topic: str | None, group: str | None, transactional_id: str | None, *, cluster: bool, prefixed: bool
) -> _Resource:
    """Raises BadParameter."""
    named = {
        ResourceType.TOPIC: topic,
        ResourceType.GROUP: group,
        ResourceType.TRANSACTIONAL_ID: transactional_id,
        ResourceType.CLUSTER: CLUSTER_NAME if cluster else None,
    }
    given = [(type_, name) for type_, name in named.items() if name is not None]
    if len(given) > 1:
        raise typer.BadParameter("name one resource: --topic, --group, --transactional-id or --cluster")
    if prefixed and (not given or cluster):
        raise typer.BadParameter("it needs --topic, --group or --transactional-id", param_hint="--prefixed")
    type_, name = given[0] if given else (None, None)
    return _Resource(type_, name, prefixed)


def _operations(text: str | None) -> list[Operation]:
    """Raises BadParameter."""
    found = []
    for word in (text or "").split(",") if text is not None else ():
        operation = _OPERATIONS.get(word.strip().lower().replace("-", "").replace("_", ""))
        if operation is None:
            known = ", ".join(each.text[0].lower() + each.text[1:] for each in Operation)
            raise typer.BadParameter(f"{word!r} is none of {known}", param_hint="OPERATION")
        found.append(operation)
    return found


def _checked(principal: str | None) -> str | None:
    """Raises BadParameter."""
    kind, colon, name = (principal or "User:*").partition(":")
    if not (kind and colon and name):
        raise typer.BadParameter(f"{principal!r} is no principal, such as User:alice", param_hint="PRINCIPAL")
    return principal


@acl_app.command("add")
@timed
def add_command(
    context: typer.Context,
    principal: PrincipalArgument,
    operations: OperationsArgument,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: IdOption = None,
    cluster: ClusterOption = False,
    prefixed: PrefixedOption = False,
    host: HostOption = None,
    deny: Annotated[bool, typer.Option("--deny", help="Deny it, even if other rows allow it.")] = False,
    json: JsonOption = False,
) -> None:
    """Allow a principal to do something, or deny it. What is so already stays so."""
    resource = _resource(topic, group, transactional_id, cluster=cluster, prefixed=prefixed)
    wanted, who = _operations(operations), _checked(principal)

    def work(brokers: Brokers) -> None:
        from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern
        from kafka.admin import ResourceType as KafkaResourceType

        type_ = ResourceType.CLUSTER if resource.type is None else resource.type
        pattern = ResourcePattern(
            KafkaResourceType(int(type_)),
            CLUSTER_NAME if resource.name is None else resource.name,
            ACLResourcePatternType.PREFIXED if resource.is_prefixed else ACLResourcePatternType.LITERAL,
        )
        permission = ACLPermissionType.DENY if deny else ACLPermissionType.ALLOW
        rows = [ACL(who, host or "*", ACLOperation(int(each)), permission, pattern) for each in wanted]
        with brokers.admin() as admin:
            failed = admin.create_acls(rows)["failed"]
        if failed:
            raise RefusedError(principal, failed[0].errno)
        _tell(rows, json=json)

    carry_out(context, work)


@acl_app.command("list")
@timed
def list_command(
    context: typer.Context,
    principal: Annotated[
        str | None, typer.Option("--principal", metavar="PRINCIPAL", help="Only rows of this principal.")
    ] = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: IdOption = None,
    cluster: ClusterOption = False,
    json: JsonOption = False,
) -> None:
    """Print rows: all of them, or those that are about one resource, also by '*' and by prefixes."""
    resource = _resource(topic, group, transactional_id, cluster=cluster, prefixed=False)
    who = _checked(principal)

    def work(brokers: Brokers) -> None:
        from kafka.admin import ACLOperation, ACLPermissionType

        asked = _filter(resource, who, None, ACLOperation.ANY, ACLPermissionType.ANY, matches=True)
        with brokers.admin() as admin:
            rows, _ = admin.describe_acls(asked)
        _tell(rows, json=json)

    carry_out(context, work, writes=False)


@acl_app.command("remove")
@timed
def remove_command(
    context: typer.Context,
    principal: PrincipalArgument,
    operations: SomeOperationsArgument = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: IdOption = None,
    cluster: ClusterOption = False,
    prefixed: PrefixedOption = False,
    host: HostOption = None,
    json: JsonOption = False,
) -> None:
    """Remove the rows of a principal, all or some of them, and print them."""
    resource = _resource(topic, group, transactional_id, cluster=cluster, prefixed=prefixed)
    wanted, who = _operations(operations), _checked(principal)

    def work(brokers: Brokers) -> None:
        from kafka.admin import ACLOperation, ACLPermissionType

        filters = [
            _filter(resource, who, host, operation, ACLPermissionType.ANY, matches=False)
            for operation in [ACLOperation(int(each)) for each in wanted] or [ACLOperation.ANY]
        ]
        with brokers.admin() as admin:
            results = admin.delete_acls(filters)
        rows = []
        for _, found, error in results:
            if error.errno:
                raise RefusedError(principal, error.errno)
            rows += found
        _tell(rows, json=json)

    carry_out(context, work)


def _filter(
    resource: _Resource, principal: str | None, host: str | None, operation: Any, permission: Any, *, matches: bool
) -> Any:
    """matches: also rows that are about the resource by another name."""
    from kafka.admin import ACLFilter, ACLResourcePatternType, ResourcePatternFilter
    from kafka.admin import ResourceType as KafkaResourceType

    if resource.name is None:
        pattern = ACLResourcePatternType.ANY
    elif matches:
        pattern = ACLResourcePatternType.MATCH
    else:
        pattern = ACLResourcePatternType.PREFIXED if resource.is_prefixed else ACLResourcePatternType.LITERAL
    type_ = KafkaResourceType.ANY if resource.type is None else KafkaResourceType(int(resource.type))
    return ACLFilter(principal, host, operation, permission, ResourcePatternFilter(type_, resource.name, pattern))


def _tell(rows: list[Any], *, json: bool) -> None:
    lines = sorted(map(_line, rows), key=lambda line: tuple(line.values()))
    if json:
        for line in lines:
            say(json_line(line))
    elif lines:
        for text in columns([_HEAD, *(tuple(map(in_line, line.values())) for line in lines)]):
            say(text)


def _line(row: Any) -> dict[str, str]:
    """A row, as Kafka's znodes write it."""
    pattern = row.resource_pattern
    return {
        "resource": _text(pattern.resource_type),
        "name": pattern.resource_name,
        "pattern": pattern.pattern_type.name.lower(),
        "principal": row.principal,
        "host": row.host,
        "operation": _text(row.operation),
        "permission": _text(row.permission_type),
    }


def _text(word: Any) -> str:
    return "".join(map(str.capitalize, word.name.split("_")))
