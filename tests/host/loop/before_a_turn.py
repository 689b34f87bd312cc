"""What the loop does before a turn, for tests that take turns themselves."""

from zab.host.loop.loop import Loop
from zab.host.loop.poller import BROKEN


def tell_what_is_ready(loop: Loop) -> None:
    """Without waiting for it."""
    for descriptor, mask in loop._poll(0, len(loop._by_descriptor)):
        watched = loop._by_descriptor.get(descriptor)
        if watched is not None:
            watched.on_ready(watched.interest if mask & BROKEN else mask)


def next_timer(loop: Loop) -> int | None:
    """When the first timer is due (ms, monotonic)."""
    return min((when for when, _, timer in loop._timers if timer.when == when), default=None)
