"""Permissions on admin commands that show data or change something, and on the origin of requests."""

from __future__ import annotations

import pytest
from attrs import evolve

from datatree.acl import ADMIN, ALL, READ, SUPER, AclList, digest_identity
from zab.member.settings.access import AccessSettings
from zab.member.settings.config import Config
from zab.member.settings.storage import StorageSettings
from zab.member.words.admin_commands import COMMANDS
from zab.member.words.admin_rights import identities_of, may_have_all

BOB = digest_identity(b"bob:pw")
ROOT_OF_BOB = ((ALL, *BOB),)
ANYONE = (b"world", b"anyone")
SUPER_DIGEST = digest_identity(b"super:wire")[1].decode()
CONFIG = Config(storage=StorageSettings(data_dir="/data"), access=AccessSettings(super_digest=SUPER_DIGEST))


@pytest.mark.parametrize(
    ("root", "may"),
    [
        (None, False),
        ((), False),
        (((ALL, *ANYONE),), False),
        (((ALL, b"ip", b"127.0.0.1"),), False),
        (ROOT_OF_BOB, True),
        (((READ, *ANYONE), *ROOT_OF_BOB), True),
        (((ALL & ~ADMIN, *BOB), (ADMIN, *BOB)), True),
        (((ALL & ~READ, *BOB), (READ, *ANYONE)), False),
        (((ALL & ~ADMIN, *BOB),), False),
        (((ALL, *ANYONE), *ROOT_OF_BOB), False),
        (((ADMIN, b"ip", b"0.0.0.0/0"), *ROOT_OF_BOB), False),
        (((ALL, *digest_identity(b"bob:other")),), False),
        (((ALL, b"sasl", b"bob"),), False),
    ],
)
def test_only_an_entry_that_names_somebody_lets_him_in(root: AclList, may: bool) -> None:
    """And only in an ACL that unauthenticated clients cannot change: they would add themselves."""
    assert may_have_all(root, (BOB,), skip_acl=False) is may
    assert may_have_all(root, (BOB, SUPER), skip_acl=False)
    assert not may_have_all(root, (BOB,), skip_acl=True), "everybody may change every list"
    assert not may_have_all(root, (), skip_acl=False)


def test_what_a_header_proves() -> None:
    assert identities_of("digest bob:pw", CONFIG) == (BOB,)
    assert identities_of("digest super:wire", CONFIG) == (digest_identity(b"super:wire"), SUPER)
    for proves_nothing in ("", "digest", "digest  bob:pw", "digest bob:pw more", "Basic bob:pw", "ip 127.0.0.1"):
        assert identities_of(proves_nothing, CONFIG) == ()
    assert identities_of("digest bob:pw", evolve(CONFIG, access=evolve(CONFIG.access, digest_enabled=False))) == ()


def test_every_command_that_resets_or_lists_asks_who_it_is() -> None:
    """A new one is sorted here: it only tells of the server, or it asks."""
    tells_of_the_server = {
        *("configuration", "dirs", "environment", "get_trace_mask", "hash", "initial_configuration", "is_read_only"),
        *("last_snapshot", "leader", "monitor", "observer_connection_stat_reset", "observers", "ruok", "server_stats"),
        *("system_properties", "voting_view", "watch_summary", "zabstate"),
    }
    assert {name for name, command in COMMANDS.items() if not command.asks_who} == tells_of_the_server
    assert COMMANDS["monitor"].hidden == ("sequence_numbers_parent",)
