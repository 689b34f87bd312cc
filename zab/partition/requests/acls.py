"""DescribeAcls, CreateAcls and DeleteAcls: the access lists, in znodes.

The controller writes what changes; every broker learns of it from the znodes. The broker that is the controller holds
to a change before it is answered, the others a moment later. What is described is what this broker holds to.

Without an authorizer there are no lists (SECURITY_DISABLED). Guards have asked whether the client may do this.
"""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from zab.partition.access.acl_filter import ALLOW, DENY, AclFilter
from zab.partition.access.acl_znodes import why_no_acl
from zab.partition.access.acls import Acl, Operation, Pattern, Resource, ResourceType
from zab.partition.access.authorizer import Authorizer
from zab.partition.controller.requests import Answer, CreateAcls, DeleteAcls, RemovedAcl
from zab.partition.requests.asking_controller import AskingController
from zab.partition.requests.dispatch import Handler
from zab.partition.requests.request import Request

NO_AUTHORIZER = "this broker has no authorizer (authorizer.class.name)"


class AclRequests:
    """Answers from the lists that this broker holds to, and asks the controller for changes."""

    def __init__(self, authorizer: Authorizer | None, controller: AskingController) -> None:
        self._authorizer = authorizer
        self._controller = controller

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.DESCRIBE_ACLS: self.describe,
            ApiKey.CREATE_ACLS: self.create,
            ApiKey.DELETE_ACLS: self.delete,
        }

    # ------------------------------------------------------------------------------------------------------ describing

    def describe(self, request: Request) -> None:
        """Handle DescribeAcls."""
        body: DescribeAclsRequest = request.body
        asked = _filter(body)
        reason = asked.why_invalid()
        if self._authorizer is None:
            answer = _not_described(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        elif reason is not None:
            answer = _not_described(ErrorCode.INVALID_REQUEST, reason)
        else:
            answer = DescribeAclsResponse(
                error_code=ErrorCode.NONE, error_message=None, resources=self._described(self._authorizer, asked)
            )
        request.answer(answer)

    @staticmethod
    def _described(authorizer: Authorizer, asked: AclFilter) -> tuple[DescribeAclsResource, ...]:
        found: dict[Resource, list[Acl]] = {}
        for resource, rows in authorizer.lists:
            matching = [each for each in rows or () if asked.matches(resource, each)]
            if matching:
                found[resource] = sorted(matching, key=_order)
        return tuple(
            DescribeAclsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                pattern_type=resource.pattern,
                acls=tuple(
                    AclDescription(
                        principal=each.principal,
                        host=each.host,
                        operation=each.operation,
                        permission_type=_permission(each),
                    )
                    for each in found[resource]
                ),
            )
            for resource in sorted(found, key=lambda resource: (resource.type, resource.name, resource.pattern))
        )

    # -------------------------------------------------------------------------------------------------------- changing

    def create(self, request: Request) -> None:
        """Handle CreateAcls."""
        body: CreateAclsRequest = request.body
        results: list[AclCreationResult | None] = [None] * len(body.creations)
        asked: list[tuple[Resource, Acl]] = []
        places: list[int] = []
        for at, creation in enumerate(body.creations):
            row = _row(creation)
            if self._authorizer is None:
                results[at] = _created(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
            elif isinstance(row, str):
                results[at] = _created(ErrorCode.INVALID_REQUEST, row)
            else:
                asked.append(row)
                places.append(at)

        def answered(answer: Answer) -> None:
            outcomes = answer.outcomes or ()
            for number, at in enumerate(places):
                if answer.error is not ErrorCode.NONE:
                    results[at] = _created(answer.error, answer.message)
                else:
                    results[at] = _created(outcomes[number].error, outcomes[number].message)
            request.answer(CreateAclsResponse(results=tuple(each for each in results if each is not None)))

        if asked:
            self._controller.ask(lambda token: CreateAcls(token, tuple(asked)), answered)
        else:
            answered(Answer(None))

    def delete(self, request: Request) -> None:
        """Handle DeleteAcls."""
        body: DeleteAclsRequest = request.body
        filters = [_filter(each) for each in body.filters]
        wrong = [each.why_invalid() for each in filters]
        valid = [at for at, reason in enumerate(wrong) if reason is None]
        if self._authorizer is None:
            result = _filtered(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
            request.answer(DeleteAclsResponse(filter_results=(result,) * len(filters)))
            return

        def answered(answer: Answer) -> None:
            found: dict[int, list[DeleteAclsMatchingAcl]] = {}
            for each in answer.removed or ():
                found.setdefault(valid[each.filter], []).append(_removed(each))
            results = []
            for at, reason in enumerate(wrong):
                if reason is not None:
                    results.append(_filtered(ErrorCode.INVALID_REQUEST, reason))
                else:
                    results.append(_filtered(answer.error, answer.message, tuple(found.get(at, ()))))
            request.answer(DeleteAclsResponse(filter_results=tuple(results)))

        if valid:
            asked = tuple(filters[at] for at in valid)
            self._controller.ask(lambda token: DeleteAcls(token, asked), answered)
        else:
            answered(Answer(None))


def _filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        type=asked.resource_type_filter,
        pattern=asked.pattern_type_filter,
        name=asked.resource_name_filter,
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=asked.operation,
        permission=asked.permission_type,
    )


def _row(asked: AclCreation) -> tuple[Resource, Acl] | str:
    """The row that is asked for, or why it cannot be."""
    try:
        resource = Resource(
            ResourceType(asked.resource_type), Pattern(asked.resource_pattern_type), asked.resource_name
        )
        operation = Operation(asked.operation)
    except ValueError as error:
        return str(error)
    if asked.permission_type not in (ALLOW, DENY):
        return f"{asked.permission_type} is no permission: {ALLOW} allows, {DENY} denies"
    acl = Acl(asked.principal, asked.host, operation, allows=asked.permission_type == ALLOW)
    return why_no_acl(resource, acl) or (resource, acl)


def _order(acl: Acl) -> tuple[str, str, int, bool]:
    return acl.principal, acl.host, acl.operation, acl.allows


def _permission(acl: Acl) -> int:
    return ALLOW if acl.allows else DENY


def _not_described(error: ErrorCode, message: str) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error, error_message=message, resources=())


def _created(error: ErrorCode, message: str | None) -> AclCreationResult:
    return AclCreationResult(error_code=error, error_message=message)


def _filtered(
    error: ErrorCode, message: str | None, matching: tuple[DeleteAclsMatchingAcl, ...] = ()
) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error, error_message=message, matching_acls=matching)


def _removed(each: RemovedAcl) -> DeleteAclsMatchingAcl:
    resource, acl = each.resource, each.acl
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=resource.type,
        resource_name=resource.name,
        pattern_type=resource.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=_permission(acl),
    )
