"""Which quotas there are, and which of them holds for a client.

A quota is set for a user, for a client id, or for a client id of a user. Each of the two may be `<default>`, which
holds for all that have none of their own. The znodes are Kafka's:

    /config/users/<user>    /config/clients/<id>    /config/users/<user>/clients/<id>

The first of these that has the key holds, as in Kafka:

    1  user, client id              5  default user, default client id
    2  user, default client id      6  default user
    3  user                         7  client id
    4  default user, client id      8  default client id

What is used is added up by the user where 3 or 6 holds, by the client id where 7 or 8 does, else by both. So clients
share the quota of their user.

Names are as in paths here: quoted (`znodes.quoted`), so that `<default>` is no name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from attrs import frozen

from zab.partition.controller.znodes import DEFAULT_NAME

PRODUCED: Final = "producer_byte_rate"
FETCHED: Final = "consumer_byte_rate"
WORKED: Final = "request_percentage"
MUTATED: Final = "controller_mutation_rate"
KEYS: Final = (WORKED, PRODUCED, FETCHED, MUTATED)
"""What quotas are about: percent of the time of the loop, bytes a second, partitions that are created and deleted in a
second. The order is that of Kafka's answers."""
WHOLE: Final = frozenset({PRODUCED, FETCHED})
"""Quotas that are whole numbers."""
LARGEST: Final = (1 << 63) - 1


@frozen
class Entity:
    """A user, a client id, or both."""

    user: str | None = None
    client: str | None = None

    @property
    def path(self) -> str:
        """Below /config."""
        if self.client is None:
            return f"users/{self.user}"
        return f"clients/{self.client}" if self.user is None else f"users/{self.user}/clients/{self.client}"


def entity_at(path: str) -> Entity | None:
    """The entity whose settings are at this path below /config; None: it is none with quotas."""
    match path.split("/"):
        case ["users", user]:
            return Entity(user)
        case ["clients", client]:
            return Entity(None, client)
        case ["users", user, "clients", client]:
            return Entity(user, client)
    return None


def number_in(key: str, text: str) -> float:
    """The value of a quota. Raises ValueError."""
    number = int(text) if key in WHOLE else float(text)
    check(number)
    return number


def check(number: float) -> None:
    """Raises ValueError if no quota has this value."""
    if not 0 < number <= LARGEST:
        raise ValueError("it is not above 0")


class QuotaLimits:
    """The quotas of all entities."""

    def __init__(self) -> None:
        self.of_entities: dict[Entity, dict[str, float]] = {}
        self.counts = dict.fromkeys(KEYS, 0)
        """How many entities have each key: mostly none, which each request looks at."""

    def changed(self, entity: Entity, config: Mapping[str, str]) -> list[str]:
        """Take these settings of an entity; returns sentences about what is wrong with them."""
        found, wrong = {}, []
        for key in KEYS:
            if key in config:
                try:
                    found[key] = number_in(key, config[key])
                except (ValueError, OverflowError) as error:
                    wrong.append(f"/config/{entity.path}: {key}={config[key]!r} does not hold: {error}")
        for key in self.of_entities.pop(entity, {}):
            self.counts[key] -= 1
        if found:
            self.of_entities[entity] = found
        for key in found:
            self.counts[key] += 1
        return wrong

    def find(self, key: str, user: str, client: str) -> tuple[Entity, float] | None:
        """The quota that holds for a client of a user, and for whom what is used is added up; None: there is none."""
        if not self.counts[key]:
            return None
        for entity, together in _candidates(user, client):
            limit = self.of_entities.get(entity, {}).get(key)
            if limit is not None:
                return together, limit
        return None


def _candidates(user: str, client: str) -> Iterator[tuple[Entity, Entity]]:
    """The entities whose quota may hold, first the one that goes before the others, with those who share it."""
    both = Entity(user, client)
    yield both, both
    yield Entity(user, DEFAULT_NAME), both
    yield Entity(user), Entity(user)
    yield Entity(DEFAULT_NAME, client), both
    yield Entity(DEFAULT_NAME, DEFAULT_NAME), both
    yield Entity(DEFAULT_NAME), Entity(user)
    yield Entity(None, client), Entity(None, client)
    yield Entity(None, DEFAULT_NAME), Entity(None, client)
