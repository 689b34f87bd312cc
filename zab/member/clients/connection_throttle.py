"""How many sessions clients may ask for per time: a token bucket, like ZooKeeper's BlueThrottle.

A client pays for a session with tokens; if there are too few, it is closed without an answer, and may try again. Tokens
are added over time, up to the size of the bucket: so a burst passes, but a storm of returning clients does not.

The bucket favours clients that happen to come first. So, if `freeze_time` is set, clients are refused with some
probability although tokens are left. The probability grows by `drop_increase` when the bucket was empty, shrinks by
`drop_decrease` when few tokens are missing, and is adapted once in `freeze_time`: under steady load it settles where
all clients have the same chance.

It counts only sessions of clients; members are never throttled (H1 links always read).

Not here: limits on connections (`connection`), and on requests (`request_throttle`).
"""

from __future__ import annotations

from random import Random

from zab.member.settings.throttles import ConnectionThrottleSettings


class ConnectionThrottle:
    """The throttle of one member. Clock and randomness are handed in; `now` is in ms and never falls."""

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
        """The throttle; None if it is off."""
        return ConnectionThrottle(settings, rng, now) if settings.tokens else None

    @property
    def deficit(self) -> int:
        """The tokens that are missing."""
        return self._size - self._tokens

    def admits(self, now: int, *, is_renewal: bool, is_local: bool = False) -> bool:
        """Whether a client gets a session now; if so, its tokens are taken. `is_local`: a new session of this member
        alone."""
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
