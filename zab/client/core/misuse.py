"""Errors for arguments of a wrong type, where Python's own message would be about our internals.

Arguments are checked only when a client is opened, and when something has failed already.
"""

from collections.abc import Iterable
from typing import Any

from datatree.requests import WireAcl
from zab.client.core.records import Acl

__all__ = ["acl_rows", "identities", "no_listener", "no_path", "no_version", "no_zxid", "unknown_option"]


def unknown_option(name: str, known: Iterable[str]) -> TypeError:
    """An unknown keyword. Suggests a similar one, or the counterpart of kazoo's."""
    from difflib import get_close_matches

    near = ["session_timeout_ms"] if name == "timeout" else get_close_matches(name, sorted(known), 1)
    hint = f". Did you mean {near[0]}?" if near else ""
    return TypeError(f"connect has no keyword {name}{hint}")


def identities(auth: Any) -> list[tuple[str, str | bytes]]:
    """Pairs of scheme and credentials. Raises TypeError."""
    found = [] if isinstance(auth, str | bytes) else list(auth)
    for each in found:
        if isinstance(each, str | bytes) or len(each) != 2:
            found = []
            break
    if auth and not found:
        raise TypeError('auth is a list of pairs, such as [("digest", "user:password")]')
    return found


def acl_rows(acl: Iterable[Acl]) -> tuple[WireAcl, ...]:
    """The ACL as it is sent. Raises TypeError."""
    try:
        return tuple([entry.to_wire() for entry in acl])
    except (AttributeError, TypeError):
        kind = _kind(acl) if isinstance(acl, str) or not isinstance(acl, Iterable) else "one of something else"
        raise TypeError(f"an ACL is a list of Acl, such as zab.client.OPEN_ACL, not {kind}") from None


def no_listener(watch: object) -> TypeError:
    return TypeError(f"watch is a watcher, as zk.watcher() makes one, not {_kind(watch)}: its events are received")


def no_path(path: object) -> TypeError:
    return TypeError(f"a path is a str, not {_kind(path)}")


def no_zxid(since: object) -> TypeError:
    return TypeError(f'since is a zxid, as int("0x100000001", 16) is one, or a Place, not {_kind(since)}')


def no_version(version: object) -> TypeError:
    return TypeError(f"version is an int, such as stat.version, or -1 for any, not {_kind(version)}")


def _kind(value: object) -> str:
    return "a function" if callable(value) and not isinstance(value, type) else type(value).__name__
