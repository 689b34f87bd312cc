"""Logins by SASL at the listeners of a broker, under Kafka's keys.

    listener.name.NAME.plain.sasl.jaas.config      the users of PLAIN at this listener, as Kafka's PlainLoginModule

Users of SCRAM are in znodes. Not here: what a login is (`zab.partition.access`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from zab.configuration.fields import integer, setting
from zab.configuration.jaas import JaasError, parse_jaas
from zab.partition.access.logins import MECHANISMS, PLAIN

PLAIN_USERS: Final = re.compile(r"listener\.name\.([a-z0-9_.-]+?)\.plain\.sasl\.jaas\.config", re.ASCII)
SCRAM_MODULE: Final = re.compile(r"listener\.name\.([a-z0-9_.-]+?)\.scram-sha-(256|512)\.sasl\.jaas\.config", re.ASCII)
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USER: Final = "user_"


def _mechanisms(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    for name in names:
        if name not in MECHANISMS:
            raise ValueError(f"{name} is not supported, only {', '.join(MECHANISMS)} are")
    if not names:
        raise ValueError("there is no mechanism")
    return names


@frozen(kw_only=True)
class LoginSettings:
    """How clients log in where a listener's protocol begins with SASL."""

    mechanisms: tuple[str, ...] = setting(
        *("sasl.enabled.mechanisms", tuple(each for each in MECHANISMS if each != PLAIN), _mechanisms, "mechanisms"),
        "The mechanisms of SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512.",
        shown="SCRAM-SHA-256,SCRAM-SHA-512",
    )
    failure_delay_ms: int = setting(
        *("connection.failed.authentication.delay.ms", 100, integer(0, 10_000), "ms"),
        "How long the answer to a failed login is delayed.",
    )
    reauthentication_ms: int = setting(
        *("connections.max.reauth.ms", 0, integer(0, 0), "ms"),
        "Only 0 is supported: a login is valid until its connection closes.",
    )


def plain_users_in(text: str) -> Mapping[str, str]:
    """Password by user, of one module with `user_NAME="PASSWORD"`. Raises ValueError, which shows no password."""
    try:
        [module] = parse_jaas(f"Broker {{ {text} }};")["Broker"]
    except JaasError as error:
        raise ValueError(error.reason) from None
    except (KeyError, ValueError):
        raise ValueError("one login module is expected") from None
    if module.name != _MODULE:
        raise ValueError(f"{module.name} is not supported, only {_MODULE} is")
    users = {key.removeprefix(_USER): value for key, value in module.options.items() if key.startswith(_USER)}
    if not users or not all(users) or not all(users.values()):
        raise ValueError(f'it names no users: {_USER}NAME="PASSWORD"')
    return users
