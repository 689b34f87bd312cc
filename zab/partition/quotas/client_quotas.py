"""What clients have used, and how long they wait because of it (KIP-13, KIP-124, KIP-219).

    used(key, user, client, amount)     so much is used now: how long its client has to wait, in ms; 0: it has not got
                                        above its quota
    taken_back(…)                       it was not used after all
    most(key, user, client)             what may be used at once: what the quota allows in all windows but one
    mutated(user, client, count, …)     so many partitions are to be created or deleted: how long its client has to
                                        wait, and whether they are

Above the quota a client waits until its rate would be that of the quota, if it did nothing meanwhile:
(rate - quota) / quota x the time of the windows. For `request_percentage` that is at most one window, as in Kafka.
Mutations have a bucket of tokens instead, which holds what the quota allows in all windows.

Limits: nobody waits for longer than `longest_ms`. The use of `METERS_MAX` entities is known, for all keys but
mutations together, and for mutations, of those that have used something last.

Not here: the waiting (`zab.partition.requests.throttling`).
"""

from __future__ import annotations

from typing import Final

import attrs

from zab.partition.quotas.limits import MUTATED, WORKED, Entity, QuotaLimits
from zab.partition.quotas.rate import Rate
from zab.partition.quotas.token_bucket import TokenBucket

METERS_MAX: Final = 10_000
THROTTLE_MS_MAX: Final = 300_000


@attrs.define(eq=False)
class Meter:
    """What an entity uses of one kind."""

    rate: Rate
    throttled_ms: int = 0
    """How long its clients had to wait, altogether."""


class ClientQuotas:
    """See the docstring of the module. `now` is the time of this turn (monotonic ms)."""

    def __init__(self, windows_count: int, window_ms: int, longest_ms: int) -> None:
        self._windows_count = windows_count
        self._window_ms = window_ms
        self._longest_ms = longest_ms
        self.now = 0
        self.limits = QuotaLimits()
        self.meters: dict[tuple[str, Entity], Meter] = {}
        """By the key of the quota and who shares it, longest unused first."""
        self.buckets: dict[Entity, TokenBucket] = {}
        """For mutations, by who shares it."""

    def used(self, key: str, user: str, client: str, amount: float) -> int:
        """See the docstring of the module. Names are quoted."""
        found = self.limits.find(key, user, client)
        if found is None:
            return 0
        together, limit = found
        meter, now = self._meter(key, together), self.now
        meter.rate.add(amount, now)
        rate = meter.rate.measure(now)
        if rate <= limit:
            return 0
        wait_ms = int((rate - limit) / limit * meter.rate.span_ms(now) + 0.5)
        wait_ms = min(wait_ms, self._longest_ms, self._window_ms if key == WORKED else wait_ms)
        meter.throttled_ms += wait_ms
        return wait_ms

    def taken_back(self, key: str, user: str, client: str, amount: float) -> None:
        """See the docstring of the module."""
        found = self.limits.find(key, user, client)
        if found is not None:
            self._meter(key, found[0]).rate.add(-amount, self.now)

    def mutated(self, user: str, client: str, count: int, *, is_strict: bool) -> tuple[int, bool]:
        """See the docstring of the module. `is_strict`: nothing is done once there are too few tokens; else everything
        is, and its client waits then."""
        found = self.limits.find(MUTATED, user, client)
        if found is None:
            return 0, True
        together, limit = found
        bucket = self._bucket(together)
        tokens = bucket.tokens(limit, limit * self._windows_count * self._window_ms / 1000, self.now)
        is_done = tokens >= 0 or not is_strict
        if is_done:
            bucket.take(count)
            tokens -= 0 if is_strict else count
        if tokens >= 0:
            return 0, is_done
        wait_ms = min(max(1, int(-tokens / limit * 1000 + 0.5)), self._longest_ms)
        bucket.throttled_ms += wait_ms
        return wait_ms, is_done

    def most(self, key: str, user: str, client: str) -> float | None:
        """See the docstring of the module; None: there is no quota."""
        found = self.limits.find(key, user, client)
        return None if found is None else found[1] * (self._windows_count - 1) * self._window_ms / 1000

    def is_unused(self, key: str, user: str, client: str) -> bool:
        """Whether nothing is in the windows of a quota."""
        found = self.limits.find(key, user, client)
        return found is None or self._meter(key, found[0]).rate.total(self.now) <= 0

    def _meter(self, key: str, together: Entity) -> Meter:
        place = key, together
        meter = self.meters.pop(place, None)
        if meter is None:
            meter = Meter(Rate(self._windows_count, self._window_ms))
            if len(self.meters) >= METERS_MAX:
                del self.meters[next(iter(self.meters))]
        self.meters[place] = meter
        return meter

    def _bucket(self, together: Entity) -> TokenBucket:
        bucket = self.buckets.pop(together, None)
        if bucket is None:
            bucket = TokenBucket()
            if len(self.buckets) >= METERS_MAX:
                del self.buckets[next(iter(self.buckets))]
        self.buckets[together] = bucket
        return bucket
