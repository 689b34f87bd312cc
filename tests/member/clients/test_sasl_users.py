"""The users of SASL, from a file of users and from a JAAS file; no error shows a password or a key."""

from __future__ import annotations

import pytest

from zab.member.clients.sasl_users import NAME_BYTES_MAX, USERS_MAX, UsersError, user_line, users_of_file, users_of_jaas
from zab.wire.login.digest_md5 import ZOOKEEPER_REALM, key_of

KEY = "0123456789abcdef" * 2
LOGIN = "org.apache.zookeeper.server.auth.DigestLoginModule"


def section(*options: str, name: str = "Server", module: str = LOGIN) -> str:
    return f"{name} {{ {module} required {' '.join(options)}; }};"


def test_file_of_users() -> None:
    bob = user_line("bob", "bob's")
    users = users_of_file(f"# of the cluster\n\n  {bob}  \nb\u00f6b x:{ZOOKEEPER_REALM}:{KEY.upper()}\n")
    assert users == {"bob": key_of("bob", ZOOKEEPER_REALM, "bob's"), "b\u00f6b x": bytes.fromhex(KEY)}
    # As Apache's htdigest writes it.
    assert bob == "bob:zk-sasl-md5:0c0c40c624fd45a526f9e307c96430ae"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "there is no user in it: `zab user FILE NAME` adds one"),
        ("# bob", "there is no user in it"),
        ("\nbob:hidden", "line 2: a user is NAME:zk-sasl-md5:"),
        (f"bob:elsewhere:{KEY}", "line 1: a user is"),
        (f"bob:{ZOOKEEPER_REALM}:{KEY}0", "line 1: a user is"),
        (f"bob:{ZOOKEEPER_REALM}:{KEY[:-1]}g", "line 1: a user is"),
        (f"b:ob:{ZOOKEEPER_REALM}:{KEY}", "line 1: a user is"),
        (f":{ZOOKEEPER_REALM}:{KEY}", "line 1: a name has"),
        (f"bob/host:{ZOOKEEPER_REALM}:{KEY}", "line 1: a name has"),
        (f"bob@REALM:{ZOOKEEPER_REALM}:{KEY}", "line 1: a name has"),
        (f"b\tob:{ZOOKEEPER_REALM}:{KEY}", "line 1: a name has"),
        (f"{'b' * (NAME_BYTES_MAX + 1)}:{ZOOKEEPER_REALM}:{KEY}", "line 1: a name has"),
        (f"bob:{ZOOKEEPER_REALM}:{KEY}\n" * 2, "line 2: the user 'bob' exists already"),
        ("".join(f"{n}:{ZOOKEEPER_REALM}:{KEY}\n" for n in range(USERS_MAX + 1)), "there are more than 10000 users"),
    ],
)
def test_what_is_no_file_of_users(text: str, reason: str) -> None:
    with pytest.raises(UsersError) as error:
        users_of_file(text)
    assert reason in str(error.value)
    assert KEY[:8] not in str(error.value)
    assert "hidden" not in str(error.value)


def test_users_of_a_jaas_file() -> None:
    text = section('user_bob="bob\'s"', 'user_super="old"', "debug=true") + section("user_eve=x", name="Other")
    assert users_of_jaas(text, "Server", None) == {
        "bob": key_of("bob", ZOOKEEPER_REALM, "bob's"),
        "super": key_of("super", ZOOKEEPER_REALM, "old"),
    }
    assert users_of_jaas(text, "Server", "new")["super"] == key_of("super", ZOOKEEPER_REALM, "new")
    assert set(users_of_jaas(text, "Other", None)) == {"eve"}


@pytest.mark.parametrize(
    ("text", "super_password", "reason"),
    [
        ("", None, "there is no section Server with a login module"),
        ("Server { };", None, "there is no section Server with a login module"),
        (section("user_bob=x", name="server"), None, "there is no section Server with a login module"),
        ("\n" + section("user_bob", "=hidden="), None, "line 2: the name of an option"),
        (section("password=hidden"), None, 'there is no user in it: a user is an option `user_NAME="password"`'),
        (section('user_bob=""'), None, "line 1: the password of a user is empty"),
        (section("user_=hidden"), None, "line 1: a name has"),
        (section('"user_bob/host"=hidden'), None, "line 1: a name has"),
        (section(module="com.sun.security.auth.module.Krb5LoginModule"), None, "cannot change to Kerberos"),
        (
            section("user_bob=hidden", module="org.example.Login"),
            None,
            f"the only supported login modules are {LOGIN} and com.sun.security.auth.module.Krb5LoginModule",
        ),
        (section("user_bob=hidden"), "hidden", "superPassword is set, but `user_super` is not in section Server"),
        (
            f"Server {{ {LOGIN} required user_bob=x;\n {LOGIN} required user_eve=hidden; }};",
            None,
            "line 2: section Server has more than one login module",
        ),
    ],
)
def test_what_is_no_section_with_users(text: str, super_password: str | None, reason: str) -> None:
    with pytest.raises(UsersError) as error:
        users_of_jaas(text, "Server", super_password)
    assert reason in str(error.value)
    assert "hidden" not in str(error.value)
