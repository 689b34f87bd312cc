"""Which `Host` and `Origin` belong to this server."""

import pytest

from zab.host.http.own_names import is_own_name, is_own_page


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1:8080", True),
        ("[::1]:8080", True),
        ("[::1]", True),
        ("localhost:8080", True),
        ("LocalHost.", True),
        ("zab1:8080", True),
        ("evil.example:8080", False),
        ("127.0.0.1.evil.example", False),
        ("zab1.evil.example", False),
        ("[evil.example]", False),
        ("", False),
    ],
)
def test_a_name_that_somebody_else_resolves_to_this_machine_is_none_of_it(host: str, is_own: bool) -> None:
    assert is_own_name(host, {"zab1"}) is is_own


def test_a_page_is_of_this_server_or_of_another_one() -> None:
    assert is_own_page("http://zab1:8080", "ZAB1:8080")
    for other in (
        "null",
        "",
        "http://zab1",
        "http://zab1:8081",
        "https://evil.example",
        "http://evil.example/zab1:8080",
    ):
        assert not is_own_page(other, "zab1:8080")
