"""What in the files of servers and brokers is secret, so that it is in no bundle (`support`, `broker_support`).

Limit: CONFIGURATION_BYTES_MAX of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from zab.configuration.jaas import JaasError, parse_jaas

CONFIGURATION_BYTES_MAX: Final = 1 << 20
"""The limit for a configuration file, and for files that it names."""
PLAIN: Final = re.compile(r"(?i)true|false|-?\d{1,6}")
"""Values that occur in many places, and are no secrets even of unknown keys."""
SECRET_WORD: Final = re.compile(r"\w{16,}")
"""What a file with a secret has besides comments."""


def of_jaas(text: str) -> Iterator[str]:
    """The passwords in a JAAS file; if it is invalid, everything in quotes."""
    try:
        sections = parse_jaas(text)
    except JaasError:
        yield from re.findall(r'"([^"\n]+)"', text)
        return
    for module in (module for modules in sections.values() for module in modules):
        for key, value in module.options.items():
            if key.startswith("user_") or "password" in key.lower():
                yield value


def of_jaas_line(text: str) -> Iterator[str]:
    """The passwords in the modules of a line, as Kafka has them in settings; if there is none, the whole line."""
    found = list(of_jaas(f"Broker {{ {text} }};"))
    yield from found or [text]


def of_password_file(text: str) -> Iterator[str]:
    """Each line of a file that has a password."""
    yield from map(str.strip, text.splitlines())


def text_of(path: str) -> str:
    """The text of a file. Raises OSError."""
    with open(path, "rb") as file:
        return file.read(CONFIGURATION_BYTES_MAX).decode("utf-8", "replace")
