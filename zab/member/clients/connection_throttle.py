"""How many sessions clients may ask for in a time: a bucket of tokens, as ZooKeeper's BlueThrottle.

Whoever asks for a session pays with tokens; who finds too few is closed without an answer, and may come again. Tokens
come back with time, up to the size of the bucket: so a burst passes, and a storm of clients that come back does not.

The bucket serves those best who happen to come first. So, if `freeze_time` is set, there is a chance to be turned away
although tokens are left. It grows by `drop_increase` when the bucket was found empty, shrinks by `drop_decrease` when
few are missing, and is looked at once in `freeze_time`: with steady load it settles where all have the same prospects.

It counts sessions of clients alone; members are never throttled (H1 links always read).

Not here: limits on connections (`connection`), and on requests (`request_throttle`).
"""

from __future__ import annotations

from random import Random

from zab.member.settings.throttles import ConnectionThrottleSettings


class ConnectionThrottle:
    """Of one member. Clock and chance are handed in; `now` is in ms and never falls."""

    def __init__(self, settings: ConnectionThrottleSettings, rng: Random, now: int) -> None:
        assert settings.tokens > 0, "else it is off"
        self._settings = settings
        self._rng = rng
        is_weighed = settings.weight_enabled
        self._cost_of_new = settings.global_session_weight if is_weighed else 1
        self._cost_of_local = settings.local_session_weight if is_weighed else 1
        self._cost_of_renewed = settings.renew_session_weight if is_weighed else 1
        self._size = settings.tokens * self._cost_of_new
        self._fill_count = settings.fill_count * self._cost_of_new
        self._tokens = self._size
        self._filled_at = self._adapted_at = now
        self.drop_probability = 0.0

    @staticmethod
    def of(settings: ConnectionThrottleSettings, rng: Random, now: int) -> ConnectionThrottle | None:
        """None where it is off."""
        return ConnectionThrottle(settings, rng, now) if settings.tokens else None

    @property
    def deficit(self) -> int:
        """The tokens that are missing."""
        return self._size - self._tokens

    def admits(self, now: int, *, is_renewal: bool, is_local: bool = False) -> bool:
        """Whether somebody gets in who asks for a session now, a new one of this member alone, if so; then it is
        paid."""
        cost = self._cost_of_renewed if is_renewal else self._cost_of_local if is_local else self._cost_of_new
        self._fill(now)
        if self._settings.freeze_time_ms >= 0:
            self._adapt(now)
            if self._rng.random() < self.drop_probability:
                return False
        if self._tokens < cost:
            return False
        self._tokens -= cost
        return True

    def _fill(self, now: int) -> None:
        passed = now - self._filled_at
        if passed > self._settings.fill_time_ms:
            back = passed * self._fill_count // self._settings.fill_time_ms
            self._tokens = min(self._size, self._tokens + back)
            self._filled_at = now

    def _adapt(self, now: int) -> None:
        settings = self._settings
        if now - self._adapted_at <= settings.freeze_time_ms:
            return
        self._adapted_at = now
        if not self._tokens:
            self.drop_probability = min(1.0, self.drop_probability + settings.drop_increase)
        elif self.deficit <= round(self._size * settings.decrease_ratio):
            self.drop_probability = max(0.0, self.drop_probability - settings.drop_decrease)
