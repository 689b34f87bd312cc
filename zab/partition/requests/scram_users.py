"""DescribeUserScramCredentials and AlterUserScramCredentials: the users that log in by SCRAM, in znodes.

The controller writes what changes; every broker learns of it from the znodes, as of other settings. So a user who was
just set can log in a moment after the answer.

A client sends salted passwords, never passwords. An answer has no credential, only mechanisms and iterations.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from zab.kafka.api_key import ApiKey
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from zab.partition.access.scram import HASHES, ITERATIONS_MAX, ITERATIONS_MIN, derived
from zab.partition.access.users import Users
from zab.partition.controller.requests import AlterConfig, Answer
from zab.partition.controller.znodes import DEFAULT_NAME
from zab.partition.requests.asking_controller import AskingController
from zab.partition.requests.dispatch import Handler
from zab.partition.requests.request import Request

MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The numbers of the protocol."""
_NUMBERS: Final = {name: number for number, name in MECHANISMS.items()}
SALT_BYTES_MIN, SALT_BYTES_MAX = 1, 1024
SALTED_BYTES_MAX: Final = 1024
NAME_CHARS_MAX: Final = 200
"""The longest name of a user: it is the name of a znode, in which a character may have 12 bytes."""

_Refused = tuple[ErrorCode, str]


class ScramUserRequests:
    """Answers from what the znodes say, and asks the controller for changes."""

    def __init__(self, users: Users, controller: AskingController) -> None:
        self._users = users
        self._controller = controller

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: self.describe,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: self.alter,
        }

    def describe(self, request: Request) -> None:
        """Handle DescribeUserScramCredentials."""
        body: DescribeUserScramCredentialsRequest = request.body
        asked = [each.name for each in body.users or ()] or sorted(self._users.of_scram)
        results = tuple(self._described(name, count) for name, count in Counter(asked).items())
        response = DescribeUserScramCredentialsResponse(
            throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None, results=results
        )
        request.answer(response)

    def _described(self, name: str, count: int) -> DescribeUserScramCredentialsResult:
        found = self._users.of_scram.get(name)
        error, message = ErrorCode.NONE, None
        if count > 1:
            error, message, found = ErrorCode.DUPLICATE_RESOURCE, "the user is asked for twice", None
        elif found is None:
            error, message = ErrorCode.RESOURCE_NOT_FOUND, "the user has no credential of SCRAM"
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=error,
            error_message=message,
            credential_infos=tuple(
                CredentialInfo(mechanism=_NUMBERS[mechanism], iterations=each.iterations)
                for mechanism, each in (found or {}).items()
            ),
        )

    def alter(self, request: Request) -> None:
        """Handle AlterUserScramCredentials."""
        body: AlterUserScramCredentialsRequest = request.body
        asked: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*body.deletions, *body.upsertions]
        twice = {pair for pair, count in Counter((each.name, each.mechanism) for each in asked).items() if count > 1}
        changes: dict[str, dict[str, str | None]] = {}
        outcomes: dict[str, _Refused | None] = dict.fromkeys(each.name for each in asked)
        for each in asked:
            refused = self._refused(each)
            if (each.name, each.mechanism) in twice:
                refused = ErrorCode.DUPLICATE_RESOURCE, "a mechanism of this user is named twice"
            if refused is not None:
                outcomes[each.name] = refused
            else:
                changes.setdefault(each.name, {})[MECHANISMS[each.mechanism]] = _value(each)
        changes = {name: found for name, found in changes.items() if outcomes[name] is None}
        waiting = set(changes)

        def answer_if_complete() -> None:
            if not waiting:
                results = tuple(_result(name, outcome) for name, outcome in outcomes.items())
                request.answer(AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results))

        def ask(name: str) -> None:
            def answered(answer: Answer) -> None:
                waiting.discard(name)
                if answer.error is not ErrorCode.NONE:
                    outcomes[name] = answer.error, answer.message or ""
                answer_if_complete()

            self._controller.ask(lambda token: AlterConfig(token, "users", name, changes[name]), answered)

        for name in changes:
            ask(name)
        answer_if_complete()

    def _refused(self, asked: ScramCredentialDeletion | ScramCredentialUpsertion) -> _Refused | None:
        """Why this is not done; None: it can be."""
        if not asked.name or asked.name == DEFAULT_NAME or len(asked.name) > NAME_CHARS_MAX or "\0" in asked.name:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "the name of the user is empty, too long, or has a meaning"
        mechanism = MECHANISMS.get(asked.mechanism)
        if mechanism is None:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "there is no such mechanism"
        if isinstance(asked, ScramCredentialDeletion):
            if mechanism not in self._users.of_scram.get(asked.name, {}):
                return ErrorCode.RESOURCE_NOT_FOUND, "the user has no such credential"
            return None
        if not ITERATIONS_MIN <= asked.iterations <= ITERATIONS_MAX:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"iterations are from {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        if not SALT_BYTES_MIN <= len(asked.salt) <= SALT_BYTES_MAX or not asked.salted_password:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"a salt has {SALT_BYTES_MIN} to {SALT_BYTES_MAX} bytes"
        if len(asked.salted_password) > SALTED_BYTES_MAX:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"a salted password has at most {SALTED_BYTES_MAX} bytes"
        return None


def _value(asked: ScramCredentialDeletion | ScramCredentialUpsertion) -> str | None:
    if isinstance(asked, ScramCredentialDeletion):
        return None
    mechanism = MECHANISMS[asked.mechanism]
    return str(derived(mechanism, bytes(asked.salted_password), bytes(asked.salt), asked.iterations))


def _result(name: str, outcome: _Refused | None) -> AlterUserScramCredentialsResult:
    error, message = (ErrorCode.NONE, None) if outcome is None else outcome
    return AlterUserScramCredentialsResult(user=name, error_code=error, error_message=message)


assert set(MECHANISMS.values()) == set(HASHES)
