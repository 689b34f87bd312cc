"""The page about deployment, and the manifests beside it."""

from __future__ import annotations

from typing import Any

import yaml

from tests.tidy.sources import ROOT

DEPLOY = ROOT / "docs" / "deploy"

PAGE = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")

MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))


def one(kind: str, name: str = "zab") -> dict[str, Any]:
    [found] = [each for each in MANIFESTS if each["kind"] == kind and each["metadata"]["name"] == name]
    return found  # type: ignore[no-any-return]
