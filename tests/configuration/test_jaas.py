"""JAAS files as Java reads them, and what is refused without showing a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.configuration.jaas import FILE_BYTES_MAX, JaasError, parse_jaas

FILE = """
/* Of the
   cluster. */
Client { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/etc/a b.keytab" debug=false; };
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule REQUIRED // who may log in
        user_super="one;}"
        "user_b\u00f6b"="a \\"quoted\\" \\\\ \\101\\tpassword"  user_eve=12-three*;
};
Empty { };
"Quorum Server" { a.B optional; c.D sufficient x=1; };
"""


def test_sections_modules_and_options() -> None:
    sections = parse_jaas(FILE)
    assert list(sections) == ["Client", "Server", "Empty", "Quorum Server"]
    [client], [server] = sections["Client"], sections["Server"]
    assert client.name == "com.sun.security.auth.module.Krb5LoginModule"
    assert client.options == {"useKeyTab": "true", "keyTab": "/etc/a b.keytab", "debug": "false"}
    assert (server.name, server.flag) == ("org.apache.zookeeper.server.auth.DigestLoginModule", "required")
    assert server.options == {
        "user_super": "one;}",
        "user_b\u00f6b": 'a "quoted" \\ A\tpassword',
        "user_eve": "12-three*",
    }
    assert server.line == 6
    assert "one" not in repr(server)
    assert sections["Empty"] == ()
    assert [(module.name, module.flag) for module in sections["Quorum Server"]] == [
        ("a.B", "optional"),
        ("c.D", "sufficient"),
    ]
    assert parse_jaas("// nothing\n") == {}


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("{", 1, "the name of a section"),
        ("Server", 1, "`{` is expected"),
        ("Server {", 1, "the class of a login module"),
        ("Server {\n};\nServer {};", 3, "there is a section Server already"),
        ("Server { } Other", 1, "`;` is expected"),
        ("Server { a.B; };", 1, "is expected after the class"),
        ("Server { a.B always; };", 1, "is expected after the class"),
        ("Server { a.B\nrequired };", 2, "the name of an option"),
        ("Server { a.B required user_bob; };", 1, "`=` is expected"),
        ("Server { a.B required user_bob==hidden; };", 1, "the value of an option"),
        ("Server { a.B required user_bob=; };", 1, "the value of an option"),
        ("Server { a.B required user_bob=a\nuser_bob=hidden; };", 2, "this option already"),
        ('Server { a.B required user_bob="hidden', 1, "neither a word"),
        ('Server { a.B required user_bob="hidden\n"; };', 1, "neither a word"),
        ("Server { a.B required user_bob='hidden'; };", 1, "neither a word"),
        ("Server { a.B required user_bob=#hidden; };", 1, "neither a word"),
        ('Server { a.B required keyTab="${user.home}/hidden"; };', 1, "properties of Java"),
        ("/* hidden", 1, "neither a word"),
        (" " * (FILE_BYTES_MAX + 1), 1, "more than"),
    ],
)
def test_what_is_no_such_file(text: str, line: int, reason: str) -> None:
    with pytest.raises(JaasError, match=reason) as error:
        parse_jaas(text)
    assert error.value.line == line
    assert "hidden" not in str(error.value)


@given(st.text(alphabet='Server{};="\\/*\n user_$a', max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        sections = parse_jaas(text)
    except JaasError:
        return
    assert all(module.flag for modules in sections.values() for module in modules)
