"""Passwords in a file of settings that others can read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import attrs

from zab.configuration.fields import settings_of
from zab.configuration.properties import parse_properties
from zab.tls.private import why_not_private


def open_passwords(
    kind: type[attrs.AttrsInstance],
    text: str,
    path: str,
    status: os.stat_result,
    synonyms: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """Warnings about passwords of stores in a file of these settings that is not private: a sentence for each, with
    its line. `synonyms`: keys with another name, and what they set."""
    reason = why_not_private(path, status)
    if reason is None:
        return
    secrets = {setting.key for setting in settings_of(kind) if setting.is_secret}
    for entry in parse_properties(text):
        key = synonyms.get(entry.key, entry.key)
        if key in secrets and entry.value:
            elsewhere = f"{key.removesuffix('.password')}.passwordPath".replace("ssl.key.", "ssl.keystore.")
            yield (
                f"line {entry.line}: {entry.key}: its value is a password, and {reason}, or have the password in the "
                f"file of {elsewhere}"
            )
