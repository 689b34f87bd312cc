"""What is left out of a bundle for support."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.operations.verdicts.redaction import LEFT_OUT, SECRET_CHARACTERS_MIN, Redactor, redacted_configuration

SHA1, SHA256, SHA512 = (
    base64.b64encode(hashlib.new(name, b"bob:secret").digest()).decode() for name in ("sha1", "sha256", "sha512")
)


@pytest.mark.parametrize("secret", [SHA1, SHA256, SHA512])
@pytest.mark.parametrize(
    "form", ["digest:bob:{}", "bob:{}", "'digest,'bob:{}\n: cdrwa", '{{"id": "bob:{}"}}', "a=bob:{},x"]
)
def test_identities_of_digest_acls_go(form: str, secret: str) -> None:
    found = Redactor().of(form.format(secret))
    assert secret not in found
    assert secret[:10] not in found
    assert "bob" in found


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----", "MIIabc"),
        ("-----BEGIN EC PRIVATE KEY-----\nMIIabc", "MIIabc"),
        ("s3://key:hunter2@bucket", "hunter2"),
        ("password=hunter2", "hunter2"),
        ('{"password": "hunter2"}', "hunter2"),
        ("Authorization: digest bob:hunter2", "hunter2"),
        ("ssl.keyStore.password = hunter2", "hunter2"),
        ("digest:admin:hunter2pass", "hunter2"),
        ("zab --auth digest:admin:h, 'hunter2', ls /", "digest:admin:h,"),
        ("--auth 'digest:admin:hunter2' ls /", "hunter2"),
        ("digest:admin:a:hunter2:b\n", "hunter2"),
        ('{"said": "digest:admin:hunter2", "more": 1}', "hunter2"),
    ],
)
def test_what_looks_like_a_secret_goes(text: str, secret: str) -> None:
    assert secret not in Redactor().of(text)


@pytest.mark.parametrize(
    "text",
    [
        "zxid=0x100000003 server 3 was not heard",
        "2026-11-20T22:00:16.123Z INFO zab.host the link to leader 3 broke -> elect",
        "server.1=127.0.0.1:2888:3888:participant;0.0.0.0:2181",
        "ssl.keyStore.passwordPath: /etc/zab/password",
        "digest: the digests of 3 members differ",
        f"digest:bob:{LEFT_OUT} was refused",
    ],
)
def test_what_is_none_stays(text: str) -> None:
    assert Redactor().of(text) == text


@given(
    st.lists(st.text("abcXYZ019+/.$(", min_size=SECRET_CHARACTERS_MIN, max_size=12), min_size=1, max_size=5),
    st.lists(st.text("xyz \n", max_size=5), min_size=1, max_size=6),
)
def test_known_secrets_go_wherever_they_stand(secrets: list[str], between: list[str]) -> None:
    text = "".join(part + secret for part in between for secret in secrets)
    found = Redactor(secrets).of(text)
    assert all(secret not in found.replace(LEFT_OUT, "\0") for secret in secrets)


def test_of_a_password_its_name_stays() -> None:
    assert Redactor().of("who: digest:admin:hunter2 from 127.0.0.1") == f"who: digest:admin:{LEFT_OUT} from 127.0.0.1"
    line = '{"said": "digest:admin:hunter2", "more": 1}'
    assert json.loads(Redactor().of(line)) == {"said": f"digest:admin:{LEFT_OUT}", "more": 1}


def test_no_name_of_a_key_loses_a_part() -> None:
    redactor = Redactor(["super", "data"], ["dataDir", "X509AuthenticationProvider.superUser"])
    text = "X509AuthenticationProvider.superUser=CN=super\ndataDir=/data superUser.\n"
    assert redactor.of(text) == (
        f"X509AuthenticationProvider.superUser=CN={LEFT_OUT}\ndataDir=/{LEFT_OUT} {LEFT_OUT}User.\n"
    )


def test_json_stays_json() -> None:
    redactor = Redactor(["2181", "true", "leader"])
    value = {"leader": 2181, "voting": True, "who": ["the leader", {"password": 12345678, "secret": None}], "n": 0.5}
    assert redactor.of_value(value) == {
        "leader": 2181,
        "voting": True,
        "who": [f"the {LEFT_OUT}", {"password": LEFT_OUT, "secret": None}],
        "n": 0.5,
    }


def test_of_a_configuration_what_is_public_stays() -> None:
    text = "# hunter2\na=1\nb=hunter2\nc\\u0041=\\u00e4\n"
    shown = redacted_configuration(text, lambda key: key != "b")
    assert shown == f"a=1\nb={LEFT_OUT}\ncA=\\u00e4\n"
    assert "hunter2" not in redacted_configuration("b=hunter2\na=\\u00", lambda _: True)
