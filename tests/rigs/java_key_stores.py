"""Java key stores for tests: as Java's own keytool makes them, and written here, whole or odd.

made_by_keytool(directory)            one file for each case; `tests/testdata/java-key-stores` has what this made once
written(password, *entries)           a whole store of entries, each of `key_entry` or `trusted_entry`
with_java_stores(directory)           beside the PEM of a holder, the same in JKS
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from hashlib import sha1
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

KEPT = Path(__file__).parents[1] / "testdata" / "java-key-stores"
PASSWORD = "opens it"
KEY_PASSWORD = "another one"
_SUN = bytes.fromhex("300e060a2b060104012a021101010500")
"""The identifier of the algorithm, with a NULL."""


def made_by_keytool(directory: Path) -> Path:
    """Raises CalledProcessError."""

    def keytool(store: str, *arguments: str, kind: str = "JKS") -> None:
        shared = ["-keystore", str(directory / store), "-storepass", PASSWORD]
        types = [] if kind == "" else ["-storetype", kind]
        command = ["keytool", *arguments, *shared, *types]
        subprocess.run(command, check=True, capture_output=True, timeout=120)

    begins = ["-startdate", "2020/01/01"]

    def pair(store: str, alias: str, *more: str, password: str = PASSWORD, kind: str = "JKS") -> None:
        names = ["-dname", f"CN={alias}", "-ext", "san=dns:localhost", *begins, "-validity", "36500"]
        passwords = ["-keypass", password]
        keytool(store, "-genkeypair", "-alias", alias, "-keyalg", "EC", *names, *passwords, *more, kind=kind)

    def signed(store: str, alias: str) -> None:
        """By the authority, with its certificate beside it."""
        request, certificate = directory / "request", directory / "certificate"
        keytool(store, "-certreq", "-alias", alias, "-file", str(request))
        days = [*begins, "-validity", "36500", "-ext", "san=dns:localhost", "-rfc"]
        keytool("ca.jks", "-gencert", "-alias", "ca", "-infile", str(request), "-outfile", str(certificate), *days)
        for name, file in (("ca", directory / "ca.pem"), (alias, certificate)):
            keytool(store, "-importcert", "-noprompt", "-alias", name, "-file", str(file))

    pair("ca.jks", "ca", "-ext", "bc:c")
    keytool("ca.jks", "-exportcert", "-alias", "ca", "-rfc", "-file", str(directory / "ca.pem"))
    # Key and trusted certificate in one file, as many have it.
    pair("both.jks", "member")
    signed("both.jks", "member")
    pair("two-keys.jks", "one")
    pair("two-keys.jks", "two")
    pair("key-password.jks", "member", password=KEY_PASSWORD)
    pair("rsa.jks", "rsa", "-keyalg", "RSA")
    pair("expired.jks", "expired", "-validity", "30")
    # As a keytool of today writes it where nobody says which type.
    pair("named-only.jks", "member", kind="")
    authority = ["-alias", "ca", "-file", str(directory / "ca.pem")]
    keytool("named-only-trusted.jks", "-importcert", "-noprompt", *authority, kind="")
    pair("jceks.jks", "member", kind="JCEKS")
    keytool("trusted.jks", "-importcert", "-noprompt", *authority)
    keytool("both.jks", "-exportcert", "-alias", "member", "-file", str(directory / "certificate"))
    keytool("trusted.jks", "-importcert", "-noprompt", "-alias", "other", "-file", str(directory / "certificate"))
    for name in ("request", "certificate"):
        (directory / name).unlink()
    return directory


# --------------------------------------------------------------------------------------------------------- written here


def written(password: str, *entries: bytes, version: int = 2, count: int | None = None) -> bytes:
    counted = len(entries) if count is None else count
    return signed_by(password, b"\xfe\xed\xfe\xed" + _number(version) + _number(counted) + b"".join(entries))


def signed_by(password: str, content: bytes) -> bytes:
    return content + sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + content).digest()


def key_entry(alias: str, protected: bytes, chain: Sequence[bytes], version: int = 2) -> bytes:
    certificates = b"".join(_certificate(each, version) for each in chain)
    return _head(1, alias) + _block(protected) + _number(len(chain)) + certificates


def trusted_entry(alias: str, certificate: bytes, version: int = 2) -> bytes:
    return _head(2, alias) + _certificate(certificate, version)


def protected(key: bytes, password: str, algorithm: bytes = _SUN) -> bytes:
    """A key as JKS hides it."""
    salt = last = bytes(range(20))
    secret = password.encode("utf-16-be")
    stream = b""
    while len(stream) < len(key):
        last = sha1(secret + last).digest()
        stream += last
    hidden = bytes(one ^ other for one, other in zip(key, stream, strict=False))
    return der(0x30, algorithm + der(0x04, salt + hidden + sha1(secret + key).digest()))


def der(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    long = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 + len(long)]) + long + content


def with_java_stores(directory: Path) -> Path:
    """Their password is in the file `password` of the holder, as that of PKCS#12."""
    password = (directory / "password").read_text().strip()
    (directory / "keystore.jks").write_bytes(written(password, key_entry_of(directory / "keystore.pem", password)))
    for store in directory.glob("*truststore.pem"):
        store.with_suffix(".jks").write_bytes(written(password, *trusted_entries_of(store)))
    return directory


def key_entry_of(pem: Path, password: str) -> bytes:
    text = pem.read_bytes()
    pkcs8 = load_pem_private_key(text, None).private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return key_entry("zab", protected(pkcs8, password), _certificates(text))


def trusted_entries_of(pem: Path) -> list[bytes]:
    return [trusted_entry(f"ca{at}", each) for at, each in enumerate(_certificates(pem.read_bytes()))]


def _certificates(pem: bytes) -> list[bytes]:
    return [each.public_bytes(Encoding.DER) for each in x509.load_pem_x509_certificates(pem)]


def _head(tag: int, alias: str) -> bytes:
    return _number(tag) + _text(alias) + bytes(8)


def _certificate(certificate: bytes, version: int) -> bytes:
    return (_text("X.509") if version == 2 else b"") + _block(certificate)


def _text(text: str) -> bytes:
    return len(text.encode()).to_bytes(2, "big") + text.encode()


def _block(data: bytes) -> bytes:
    return _number(len(data)) + data


def _number(value: int) -> bytes:
    return value.to_bytes(4, "big")
