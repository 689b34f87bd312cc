"""The test kit: ensembles for the tests of applications; docs/how-to/test-applications.md shows it.

    Ensemble        real members in this process, in threads of their own, on free loopback ports
    Bookies         real bookies beside an ensemble, for clients of ledgers
    Brokers         real brokers beside an ensemble, for unmodified clients of Kafka
    simulate        a program on trio against a simulated ensemble: one seed, one run, with a clock of its own
    free_ports      loopback ports that nobody listens on
    plugin          the same as fixtures of pytest

Nothing is imported before it is used: pytest loads the plugin in every run if this package is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zab.testing.bookie import Bookie
    from zab.testing.bookies import Bookies
    from zab.testing.broker import Broker
    from zab.testing.brokers import Brokers
    from zab.testing.ensemble import Ensemble
    from zab.testing.errors import BookieFailedError, BrokerFailedError, EnsembleError, MemberFailedError
    from zab.testing.kit.ports import free_ports
    from zab.testing.member import Member
    from zab.testing.simulated import Run, SimulatedEnsemble, simulate
    from zab.testing.simulated_member import SimulatedMember
    from zab.testing.simulated_settings import FAULTS
    from zab.testing.topic_contents import TopicRecord

__all__ = [
    "FAULTS",
    "Bookie",
    "BookieFailedError",
    "Bookies",
    "Broker",
    "BrokerFailedError",
    "Brokers",
    "Ensemble",
    "EnsembleError",
    "Member",
    "MemberFailedError",
    "Run",
    "SimulatedEnsemble",
    "SimulatedMember",
    "TopicRecord",
    "free_ports",
    "simulate",
]

_HOMES = {
    "Bookie": "zab.testing.bookie",
    "BookieFailedError": "zab.testing.errors",
    "Bookies": "zab.testing.bookies",
    "Broker": "zab.testing.broker",
    "BrokerFailedError": "zab.testing.errors",
    "Brokers": "zab.testing.brokers",
    "TopicRecord": "zab.testing.topic_contents",
    "Ensemble": "zab.testing.ensemble",
    "EnsembleError": "zab.testing.errors",
    "Member": "zab.testing.member",
    "MemberFailedError": "zab.testing.errors",
    "free_ports": "zab.testing.kit.ports",
    "FAULTS": "zab.testing.simulated_settings",
    "SimulatedMember": "zab.testing.simulated_member",
    **dict.fromkeys(("Run", "SimulatedEnsemble", "simulate"), "zab.testing.simulated"),
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
