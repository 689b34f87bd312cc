"""The file with the secrets of an ensemble: what is one, and what is refused, without ever showing a secret."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from zab.host.files.private_file import PrivateFileError
from zab.host.files.secret_file import (
    FILE_BYTES_MAX,
    add_secret,
    keep_newest,
    make_secret_file,
    read_secrets,
)
from zab.host.files.watched_file import WatchedFile
from zab.wire.handshake import SECRETS_MAX, Secret

OLD, NEW = "01" * 32, "02" * 32


def written(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(0o600)
    return str(path)


def test_new_file_has_one_secret_for_its_owner_alone(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    before = os.umask(0)
    try:
        make_secret_file(str(one))
        make_secret_file(str(other))
    finally:
        os.umask(before)
    assert stat.S_IMODE(one.stat().st_mode) == 0o600
    [secret], [another] = read_secrets(str(one)), read_secrets(str(other))
    assert len(secret.key) == 32
    assert secret != another
    with pytest.raises(FileExistsError):
        make_secret_file(str(one))


def test_secrets_stand_in_lines_beside_blank_ones_and_remarks(tmp_path: Path) -> None:
    path = written(tmp_path / "secret", "# of the test", "", OLD, f"  {NEW}  ")
    assert read_secrets(path) == (Secret(bytes.fromhex(OLD)), Secret(bytes.fromhex(NEW)))


def test_secret_is_changed_in_two_steps(tmp_path: Path) -> None:
    path = written(tmp_path / "secret", "# of the test", OLD)
    add_secret(path)
    old, new = read_secrets(path)
    assert old == Secret(bytes.fromhex(OLD))
    keep_newest(path)
    assert read_secrets(path) == (new,)
    assert Path(path).read_text().startswith("# of the test\n")
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["secret"]


def test_only_so_many_secrets_are_valid_at_a_time(tmp_path: Path) -> None:
    path = written(tmp_path / "secret", *([OLD] * SECRETS_MAX))
    with pytest.raises(PrivateFileError, match=f"{SECRETS_MAX} secrets may be valid"):
        add_secret(path)
    with pytest.raises(PrivateFileError, match="are too many"):
        read_secrets(written(tmp_path / "more", *([OLD] * (SECRETS_MAX + 1))))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "there is no secret in it: `zab secret` makes one"),
        (["# nothing"], "there is no secret in it"),
        ([OLD, "01" * 31], ":2: a secret has at least 64 hexadecimal digits"),
        (["x" * 64], ":1: a secret has at least"),
        (["# " + "x" * FILE_BYTES_MAX], "more than 4096 bytes"),
    ],
)
def test_what_is_no_secret_is_refused_with_its_line_and_not_shown(
    tmp_path: Path, lines: list[str], reason: str
) -> None:
    path = written(tmp_path / "secret", *lines)
    with pytest.raises(PrivateFileError, match=reason) as caught:
        read_secrets(path)
    assert "01" * 31 not in str(caught.value)
    assert "xxxx" not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path / "secret", OLD)
    os.chmod(path, mode)
    with pytest.raises(PrivateFileError, match=f"run `chmod 600 {path}`"):
        read_secrets(path)


def test_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PrivateFileError, match="cannot be read: No such file"):
        WatchedFile(str(tmp_path / "secret"), read_secrets)


def test_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    path = written(tmp_path / "secret", OLD)
    file = WatchedFile(path, read_secrets)
    assert not file.read_again()
    add_secret(path)
    assert file.read_again()
    assert next(secret.key.hex() for secret in file.content) == OLD
    assert len(file.content) == 2
    keep_newest(path)
    assert file.read_again()
    assert len(file.content) == 1


def test_file_that_is_of_no_use_any_more_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "secret", OLD)
    file = WatchedFile(path, read_secrets)
    written(tmp_path / "aside", "nothing useful")
    os.replace(tmp_path / "aside", path)
    with pytest.raises(PrivateFileError, match=":1: a secret has"):
        file.read_again()
    assert file.content == (Secret(bytes.fromhex(OLD)),)
    os.remove(path)
    assert not file.read_again()
    assert file.content == (Secret(bytes.fromhex(OLD)),)


def test_no_text_of_a_secret_shows_it() -> None:
    secret = Secret(bytes.fromhex(OLD))
    assert OLD not in repr(secret)
    assert repr(secret.key) not in repr(secret)


def test_file_is_read_again_when_it_was_closed_to_others_at_last(tmp_path: Path) -> None:
    """Nothing but its mode changes."""
    path = written(tmp_path / "secret", OLD)
    file = WatchedFile(path, read_secrets)
    written(tmp_path / "secret", OLD, NEW)
    os.chmod(path, 0o644)
    for _ in range(2):
        with pytest.raises(PrivateFileError, match="chmod 600"):
            file.read_again()
    assert len(file.content) == 1
    os.chmod(path, 0o600)
    assert file.read_again()
    assert len(file.content) == 2


def test_remarks_stay_as_they_are_written(tmp_path: Path) -> None:
    path = written(tmp_path / "secret", "# für alle", OLD, NEW)
    before = Path(path).read_bytes()
    keep_newest(path)
    assert Path(path).read_bytes() == before.replace(f"{OLD}\n".encode(), b"")
