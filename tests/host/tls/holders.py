"""Fixtures: certificates of a member, and of a client who is called alice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rigs.certificates import Certificates

__all__ = ["certificates", "holder", "member"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def member(certificates: Certificates) -> Path:
    return certificates.member("localhost")


@pytest.fixture(scope="module")
def holder(certificates: Certificates) -> Path:
    return certificates.client("alice")
