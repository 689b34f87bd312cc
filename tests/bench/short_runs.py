"""What the curves of a short run are drawn from."""

from __future__ import annotations

from bench.curves.figures import Cost, Curve, Latency, Series, Shares

RUN = ["2 cores", "commit 1234567"]


def connections() -> Curve:
    curve = Curve("connections", "Connections", "connections", [Series("set", "operations a second")], RUN)
    for x, theirs, mine in ((1, 100.0, 50.0), (1_000, 400.0, 800.0), (10, 200.0, 199.0)):
        for factor in (1, 2, 3):
            curve.add("set", x, "zookeeper", theirs * factor)
            curve.add("set", x, "zab", mine * factor)
    return curve


def starts() -> Curve:
    series = [Series("start", "s", more_is_better=False), Series("memory", "B", more_is_better=False)]
    curve = Curve("znodes", "Znodes", "znodes", series, RUN)
    for name, x, theirs, mine in (
        ("start", 1_000, 2.0, 1.0),
        ("start", 100_000, 2.1, 0.5),
        ("memory", 100_000, 800, 200),
    ):
        curve.add(name, x, "zookeeper", theirs)
        curve.add(name, x, "zab", mine)
    return curve


def shares() -> Shares:
    cost = Cost("set", "zab", "leader", [500.0, 700.0], [100.0, 100.0], [200.0, 200.0], [1.0, 1.0])
    return Shares(RUN, [cost], [Latency("set", [100.0, 100.0], [200.0, 300.0], [400.0, 500.0])])
