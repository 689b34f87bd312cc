"""The superuser of `zab ensemble`: made once, for its owner alone, and read as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from datatree.acl import digest_identity
from zab.host.files.private_file import PrivateFileError
from zab.server.superuser_file import make_superuser_file, read_super_digest


def test_it_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "superuser"
    make_superuser_file(str(file))
    assert file.stat().st_mode & 0o077 == 0
    password = file.read_bytes().removeprefix(b"digest:").strip()
    assert password.startswith(b"super:")
    assert len(password) > 40
    assert read_super_digest(str(file)) == digest_identity(password)[1].decode()
    with pytest.raises(FileExistsError):
        make_superuser_file(str(file))


@pytest.mark.parametrize("text", ["", "digest:admin:x", "super:x", "digest:super:x\ndigest:super:y"])
def test_something_else_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "superuser"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(PrivateFileError, match="it has one line"):
        read_super_digest(str(file))
    file.chmod(0o644)
    with pytest.raises(PrivateFileError, match="chmod 600" if text else "it has one line"):
        read_super_digest(str(file))
