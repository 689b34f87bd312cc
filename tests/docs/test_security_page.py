"""What docs/how-to/secure.md and log-in.md show is what happens: its commands are run, in order."""

import os
import re
import subprocess
import sys
from pathlib import Path

from zab.host.files.secret_file import read_secrets
from zab.member.clients.sasl_users import users_of_file
from zab.wire.login.digest_md5 import ZOOKEEPER_REALM, key_of

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
PAGES = "".join((HOW_TO / name).read_text(encoding="utf-8") for name in ("secure.md", "log-in.md"))


def test_the_commands_make_a_secret_and_change_it_and_add_a_user(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    seen = []
    for command in re.findall(r"^\$ (zab (?:secret|user) .*)$", PAGES, re.M):
        done = subprocess.run(
            command,
            shell=True,
            capture_output=True,
            text=True,
            input="a password\n",
            timeout=120,
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), command
        if command.startswith("zab secret "):
            seen.append(read_secrets(str(tmp_path / "secret")))
    first, both, newest = seen
    assert both == (*first, *newest)
    assert users_of_file((tmp_path / "users").read_text()) == {"bob": key_of("bob", ZOOKEEPER_REALM, "a password")}
