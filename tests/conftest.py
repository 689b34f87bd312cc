"""Options of the whole suite, its marks, the fixtures that are made once, and what all of it relies on."""

import gc
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.fixtures import real_files, spark, zab_directories, zookeeper_directories
from tests.rigs.dealing import Dealing, place_in_order, write_groups
from tests.rigs.needs import marks
from tests.rigs.quick_files import use_memory

pytest_plugins = ["zab.testing.plugin"]

__all__ = ["real_files", "spark", "zab_directories", "zookeeper_directories"]

DOWNLOAD_SECONDS = 2400

# A shell has its background jobs ignore Ctrl-C, and every process inherits that: tests that interrupt one need it back.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

use_memory()

# How long an example takes says how busy the machine is.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what the protocol scripts say now into their files")
    parser.addoption("--chaos-seconds", type=float, default=20.0, help="for how long members are killed under load")
    parser.addoption("--downloads", action="store_true", help="run the tests, too, that download what they need")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What collecting makes, it keeps: nothing looks for garbage in it, then or while the tests run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--downloads"):
        items[:] = [item for item in items if item.get_closest_marker("downloads") is None]
    for item in items:
        assert isinstance(item, pytest.Function)
        if item.get_closest_marker("downloads") is not None:
            # On a fresh machine it builds and downloads first, with limits of its own.
            item.add_marker(pytest.mark.timeout(DOWNLOAD_SECONDS))
        for mark in marks(item):
            item.add_marker(mark)
    items.sort(key=place_in_order)


# ------------------------------------------------------------------------------------------------------ several workers

GROUPS = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def groups_path(config: pytest.Config) -> Path:
    """Where the workers say what belongs together; in a directory that ends with the run."""
    if GROUPS not in config.stash:
        config.stash[GROUPS] = tempfile.TemporaryDirectory(prefix="zab-tests-")
        config.add_cleanup(config.stash[GROUPS].cleanup)
    return Path(config.stash[GROUPS].name, "groups")


def pytest_configure_node(node: Any) -> None:
    node.workerinput["groups"] = str(groups_path(node.config))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Dealing:
    return Dealing(config, log, groups_path(config))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Before xdist tells that this worker has collected: then the groups are read."""
    if hasattr(session.config, "workerinput"):
        write_groups(session.items, Path(session.config.workerinput["groups"]))


# --------------------------------------------------------------------------------------------------------- what is told


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How long innocent clients waited at most while others attacked (`tests/hostile`): told, and no reason to fail."""
    found = [
        (values, report.nodeid)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, values in getattr(report, "user_properties", ())
        if name == "hostile"
    ]
    if found:
        (waited_ms, _), worst = max(found)
        turn_ms = max(turn_ms for (_, turn_ms), _ in found)
        terminalreporter.write_line(
            f"under attack, innocent clients waited {waited_ms:.0f} ms at most, in {worst}; the longest turn took"
            f" {turn_ms:.0f} ms of the processor"
        )


# ------------------------------------------------------------------------------------------------------------ processes

MAY_START_PROCESSES = ("process", "java", "spark", "cluster")
STARTS = frozenset({"subprocess.Popen", "os.fork", "os.posix_spawn"})
running: pytest.Item | None = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global running
    running = item
    try:
        return (yield)
    finally:
        running = None


def see_starts(event: str, arguments: tuple[object, ...], starts: frozenset[str] = STARTS) -> None:
    """Also called while the interpreter ends and the globals are gone: what it looks at first is its own."""
    if event in starts and running is not None and not any(map(running.get_closest_marker, MAY_START_PROCESSES)):
        raise AssertionError(f"{running.nodeid} starts {arguments[:1]}: mark it `process`")


sys.addaudithook(see_starts)
