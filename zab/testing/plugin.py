"""The test kit as fixtures of pytest: loaded by its entry point wherever this package is installed beside pytest.

    zab_server      an `Ensemble` of one member
    zab_ensemble    an `Ensemble`, of three members unless `@pytest.mark.zab(size=…)` says otherwise
    zab_client      makes clients of it: `with zab_client() as zk` in plain tests, `async with` in trio and asyncio; of
                    the ensemble if the test asks for that or for a size, else of the one member
    zab_broker      `Brokers` with one broker, for clients of Kafka
    zab_brokers     `Brokers`: three unless `@pytest.mark.zab_brokers(count=…)` says otherwise
    bootstrap_servers   the addresses of the brokers, of `zab_brokers` if the test asks for that or for a count

`@pytest.mark.zab` takes the arguments of `Ensemble`, `@pytest.mark.zab_brokers` those of `Brokers`, and both a `scope`:
`function`, `class`, `module` or `session`. Tests of one class, module or run that say the same share an ensemble, or
brokers, and each finds them as new: everybody runs and reaches everybody, the tree is empty, there are no topics, and
no session is open.

Whatever happens in a test that fails, its report shows what the members said: also those of ensembles that the test
opened itself.

It costs nothing where it is not used: members and trio are imported by the first fixture that is asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from zab.testing.kit.fixtures import shared
from zab.testing.kit.reports import note, pytest_runtest_makereport, pytest_runtest_protocol

if TYPE_CHECKING:
    from zab.testing.bookies import Bookies
    from zab.testing.brokers import Brokers
    from zab.testing.connecting import Connecting
    from zab.testing.ensemble import Ensemble

__all__ = [
    "bootstrap_servers",
    "metadata_service_uri",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "zab_bookies",
    "zab_broker",
    "zab_brokers",
    "zab_client",
    "zab_ensemble",
    "zab_server",
]

MARK: Final = "zab"
BROKERS_MARK: Final = "zab_brokers"
BOOKIES_MARK: Final = "zab_bookies"
DEFAULT_SIZE: Final = 3


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """pytest rewrites the assertions in all packages of a distribution with a plugin: members would run slower than
    they do in production, and what they say of a failed assertion would hold addresses, so no simulated run would be
    the same twice."""
    hook = getattr(early_config.pluginmanager, "rewrite_hook", None)
    marked: set[str] = getattr(hook, "_must_rewrite", set())
    marked -= {"zab", "datatree", "session"}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "zab(size=3, scope='function', observers=0, configuration={}, **keys): the members of the fixtures zab_server, "
        "zab_ensemble and zab_client, and who shares them",
    )
    config.addinivalue_line(
        "markers",
        "zab_brokers(count=3, scope='function', members=1, configuration={}): the brokers of the fixtures zab_broker, "
        "zab_brokers and bootstrap_servers, and who shares them",
    )
    config.addinivalue_line(
        "markers",
        "zab_bookies(count=3, scope='function', members=1, configuration={}, racks={}): the bookies of the fixtures "
        "zab_bookies and metadata_service_uri, and who shares them",
    )


# ------------------------------------------------------------------------------------------------------------- fixtures


@pytest.fixture
def zab_server(request: pytest.FixtureRequest) -> Iterator[Ensemble]:
    """One member: an ensemble of size 1, whatever the mark says of its size."""
    with _ensemble(request, {**_marked(request.node), "size": 1, "observers": 0}) as ensemble:
        yield ensemble


@pytest.fixture
def zab_ensemble(request: pytest.FixtureRequest) -> Iterator[Ensemble]:
    """As many members as the mark says."""
    with _ensemble(request, {"size": DEFAULT_SIZE, **_marked(request.node)}) as ensemble:
        yield ensemble


@pytest.fixture
def zab_client(request: pytest.FixtureRequest) -> Callable[..., Connecting]:
    """Makes a client; its arguments are those of `zab.client.connect`."""
    is_ensemble = "zab_ensemble" in request.fixturenames or "size" in _marked(request.node)
    ensemble: Ensemble = request.getfixturevalue("zab_ensemble" if is_ensemble else "zab_server")
    return ensemble.connect


@pytest.fixture
def zab_broker(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    """One broker, whatever the mark says of their count."""
    with _brokers(request, {**_marked(request.node, BROKERS_MARK), "count": 1}) as brokers:
        yield brokers


@pytest.fixture
def zab_brokers(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    """As many brokers as the mark says."""
    with _brokers(request, {"count": DEFAULT_SIZE, **_marked(request.node, BROKERS_MARK)}) as brokers:
        yield brokers


@pytest.fixture
def bootstrap_servers(request: pytest.FixtureRequest) -> str:
    """What clients of Kafka are given."""
    is_several = "zab_brokers" in request.fixturenames or "count" in _marked(request.node, BROKERS_MARK)
    brokers: Brokers = request.getfixturevalue("zab_brokers" if is_several else "zab_broker")
    return brokers.bootstrap_servers


@pytest.fixture
def zab_bookies(request: pytest.FixtureRequest) -> Iterator[Bookies]:
    """As many bookies as the mark says."""
    from zab.testing.bookies import Bookies

    options = {"count": DEFAULT_SIZE, **_marked(request.node, BOOKIES_MARK)}
    scope = options.pop("scope", "function")
    name = f"bookies {sorted(options.items(), key=str)!r}"
    with shared(request, scope, lambda: Bookies(**options), name) as bookies:
        note(request.node, bookies.ensemble)
        yield bookies


@pytest.fixture
def metadata_service_uri(zab_bookies: Bookies) -> str:
    """What clients of BookKeeper are given."""
    return zab_bookies.metadata_service_uri


def _marked(item: pytest.Item, name: str = MARK) -> dict[str, Any]:
    """What the mark of a test says; that of a function goes before those of its class and its module."""
    mark = item.get_closest_marker(name)
    if mark is None:
        return {}
    if mark.args:
        example = "size=5" if name == MARK else "count=3"
        raise pytest.UsageError(
            f"{item.nodeid}: the mark `{name}` takes names, such as {example}, not {mark.args[0]!r}"
        )
    return dict(mark.kwargs)


@contextlib.contextmanager
def _ensemble(request: pytest.FixtureRequest, options: dict[str, Any]) -> Iterator[Ensemble]:
    from zab.testing.ensemble import Ensemble

    scope = options.pop("scope", "function")
    with shared(request, scope, lambda: Ensemble(**options), repr(sorted(options.items(), key=str))) as ensemble:
        yield ensemble


@contextlib.contextmanager
def _brokers(request: pytest.FixtureRequest, options: dict[str, Any]) -> Iterator[Brokers]:
    from zab.testing.brokers import Brokers

    scope = options.pop("scope", "function")
    name = f"brokers {sorted(options.items(), key=str)!r}"
    with shared(request, scope, lambda: Brokers(**options), name) as brokers:
        note(request.node, brokers.ensemble)
        yield brokers
