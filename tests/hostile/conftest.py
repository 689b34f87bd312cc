"""The ensembles that all attacks share: one of each kind, made again only after an attack that got through."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.ensembles import KINDS, QUICKEST, SECURE, Target


class Targets:
    """One of each kind, once it is asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: dict[str, tuple[contextlib.ExitStack, Target]] = {}
        self._count = 0

    def of(self, kind: str) -> Target:
        if kind in self._running and self._running[kind][1].is_broken:
            self._running.pop(kind)[0].close()
        if kind not in self._running:
            self._count += 1
            directory = self._directory / str(self._count)
            directory.mkdir()
            stack = contextlib.ExitStack()
            self._running[kind] = stack, stack.enter_context(KINDS[kind](directory))
        return self._running[kind][1]

    def close(self) -> None:
        for stack, _ in self._running.values():
            stack.close()


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Targets]:
    """A worker of a parallel run gets all attacks of a module. Its innocent clients never rest, so they end with it."""
    found = Targets(tmp_path_factory.mktemp("hostile"))
    try:
        yield found
    finally:
        found.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Modules say in `SECURE_TOO` which of attacks are tried within TLS, too: all, or those with these names, which
    come out otherwise there, perhaps. What moves much would take minutes. Of the settings, `QUICKEST` notices a member
    that stands still soonest: that one is tried before a change lands, the others in `make test-longest`."""
    if "target" in metafunc.fixturenames:
        too = getattr(metafunc.module, "SECURE_TOO", ())
        is_secure_too = too is True or metafunc.function.__name__ in too
        kinds = [kind for kind in KINDS if kind != SECURE or is_secure_too]
        settings = [pytest.param(kind, marks=() if kind == QUICKEST else pytest.mark.longest) for kind in kinds]
        metafunc.parametrize("target", settings, indirect=True)


@pytest.fixture
def target(request: pytest.FixtureRequest, targets: Targets) -> Iterator[Target]:
    found = targets.of(request.param)
    count = len(found.longest)
    yield found
    if found.longest[count:]:
        request.node.user_properties.append(("hostile", max(found.longest[count:])))
