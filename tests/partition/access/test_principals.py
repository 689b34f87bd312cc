"""The principals of connections."""

from zab.partition.access.principals import ANONYMOUS, of_subject


def test_a_certificate_names_its_holder_and_no_certificate_names_nobody():
    assert of_subject("CN=alice,OU=x") == "User:CN=alice,OU=x"
    assert of_subject("") == ANONYMOUS == "User:ANONYMOUS"
