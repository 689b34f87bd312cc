"""Members that may be reconfigured."""

from __future__ import annotations

from tests.rigs.direct.members import Ensemble


def line(sid: int, role: str = "participant") -> str:
    return f"server.{sid}=127.0.0.1:{2000 + sid}:{3000 + sid}:{role};127.0.0.1:{4000 + sid}"


def reconfigurable(size: int = 3, **lines: object) -> Ensemble:
    return Ensemble(size, reconfigEnabled="true", skipACL="yes", **lines)
