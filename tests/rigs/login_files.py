"""Files with secrets, and logins of JAAS in them, for what checks who may read them."""

from __future__ import annotations

from pathlib import Path

from zab.client.access.ensemble_access import DIGEST_LOGIN


def private_file(path: Path, text: str, mode: int = 0o600) -> Path:
    """The path, with this text; only its owner may read it, unless `mode` says otherwise."""
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def digest_section(section: str, **options: str) -> str:
    """A section of a JAAS file: a login by DIGEST-MD5, or at a server its users."""
    words = " ".join(f'{name}="{value}"' for name, value in options.items())
    return f"{section} {{\n  {DIGEST_LOGIN} required {words};\n}};\n"
