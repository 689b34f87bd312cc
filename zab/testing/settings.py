"""How the members of a test ensemble are configured: `zoo.cfg` of each, in memory.

Ticks are short, so that what takes ticks is over soon: sessions may time out after 400 ms, and members that do not hear
each other notice after 3 s. Whoever sets `tickTime`, `syncLimit` or any other key has it so; what the ensemble decides
for itself (ports, directories, who is in it, the secret) cannot be set.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeAlias

from attrs import frozen

from zab.configuration.fields import settings_of
from zab.configuration.properties import escaped
from zab.member.settings.zoo_cfg import UNKNOWN_KEY, Config, ConfigError, parse
from zab.testing.kit.ports import HOST

SIZE_MAX: Final = 9
"""Members of an ensemble; more than that is no test any more, but a load on this machine."""

Value: TypeAlias = str | int | bool

DEFAULTS: Final[Mapping[str, Value]] = {
    "tickTime": 200,
    "initLimit": 100,
    "syncLimit": 15,
    "maxSessionTimeout": 60_000,
    "maxClientCnxns": 0,
    "preAllocSize": 1024,
    "diskLowBytes": 0,
    "4lw.commands.whitelist": "*",
    "admin.enableServer": False,
}
_OWN: Final = frozenset({"dataDir", "dataLogDir", "clientPort", "clientPortAddress", "dynamicConfigFile"})
_OWN_BEGINNINGS: Final = ("server.", "quorum.secret", "quorum.insecure")


@frozen
class Place:
    """Where one member listens, and where its data is."""

    sid: int
    client_port: int
    quorum_port: int
    election_port: int
    directory: Path
    is_observer: bool = False


def check_size(size: int, observers: int) -> None:
    """Raises ValueError for an ensemble that cannot be: so many voters, and so many observers."""
    if size < 1 or observers < 0 or size + observers > SIZE_MAX:
        raise ValueError(f"an ensemble has 1 to {SIZE_MAX} members, not {size} and {observers} observers")
    if size == 1 and observers:
        raise ValueError("one member alone has no observers: make it three")


def refuse_own(keys: Mapping[str, Value]) -> None:
    """Raises ValueError for a key that the ensemble sets itself."""
    for key in keys:
        if key in _OWN or key.startswith(_OWN_BEGINNINGS):
            raise ValueError(f"{key} is for the ensemble to decide: it cannot be set")


def configuration(place: Place, places: list[Place], secret_path: Path, keys: Mapping[str, Value]) -> Config:
    """The configuration of one member. Raises ValueError for what cannot be."""
    lines: dict[str, Value] = {
        **DEFAULTS,
        **keys,
        "dataDir": str(place.directory),
        "clientPort": place.client_port,
        "clientPortAddress": HOST,
    }
    if len(places) > 1:
        lines["quorum.secretFile"] = str(secret_path)
        for other in places:
            role = "observer" if other.is_observer else "participant"
            lines[f"server.{other.sid}"] = f"{HOST}:{other.quorum_port}:{other.election_port}:{role}"
    text = "".join(f"{escaped(key).replace(' ', '')}={escaped(_text(value))}\n" for key, value in lines.items())
    try:
        parsed = parse(text, f"the configuration of member {place.sid}", my_id=place.sid)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    for warning in parsed.warnings:
        if warning.reason.startswith(UNKNOWN_KEY):
            # A member passes over it, for the sake of files that were written for others. Here it is a mistake.
            known = [setting.key for setting in settings_of(Config)]
            near = get_close_matches(warning.key, ["size", "observers", *known], 1)
            hint = f". Did you mean {near[0]}?" if near else ""
            raise ValueError(f"{warning.key} is no argument of an ensemble, and no key of zoo.cfg{hint}")
    return parsed


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
