"""Somebody who follows a page: its commands are run in one shell, with ports that are free here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from threading import Timer

from tests.rigs.waiting import PATIENCE_SECONDS
from tests.tidy.sources import ROOT
from zab.cli.servers.local_ensemble import HTTP_OFFSET, OFFSETS
from zab.testing.kit.ports import free_ports, free_ports_in_a_row

PAGES = ROOT / "docs"
END = "the command has ended with "
BLOCK = re.compile(r"```(console|properties|python)\n(.*?)```\n(?:```\n(.*?)```\n)?", re.S)


class Reader:
    """Somebody who follows the page in one shell, with ports that are free here."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        shown = "2181", "9092", "9093"
        offsets = (0, HTTP_OFFSET)
        ports = (free_ports_in_a_row(1, OFFSETS), free_ports_in_a_row(1, offsets), *free_ports(1))
        self._ports = dict(zip(shown, map(str, ports), strict=True))
        self._ports["10092"] = str(ports[1] + HTTP_OFFSET)
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(directory),
            "LC_ALL": "C.UTF-8",
            "ZAB_HOSTS": f"127.0.0.1:{self._ports['2181']}",
            "ZAB_BOOTSTRAP_SERVER": f"127.0.0.1:{self._ports['9092']}",
        }
        self._said = directory / "said"
        with self._said.open("wb") as said:
            self._shell = subprocess.Popen(
                ["bash", "-m"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                cwd=directory,
                env=self._environment,
            )

    def here(self, text: str) -> str:
        return re.sub(r"\b(2181|909[23]|10092)\b", lambda found: self._ports[found[1]], text)

    def others(self, command: str) -> str:
        """The options of `zab ensemble` for ports besides those of members, with the ports that the page shows."""
        return "--broker-port 9092" if "--brokers" in command else ""

    def do(self, command: str) -> str:
        """What it prints."""
        ports = self.here(f"--client-port 2181 {self.others(command)}")
        command = self.here(command).replace("zab ensemble ", f"zab ensemble {ports} ")
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{{ {command}\n}} < /dev/null; echo {END}$?\n".encode())
        self._shell.stdin.flush()
        too_late = Timer(PATIENCE_SECONDS, self._shell.kill)
        too_late.start()
        printed = ""
        try:
            for line in self._shell.stdout:
                before, end, code = line.decode().partition(END)
                printed += before
                if end:
                    assert int(code) == 0, (command, printed, self._said.read_text())
                    return printed
        finally:
            too_late.cancel()
        raise AssertionError((command, printed, self._said.read_text()))

    def run(self, program: str) -> str:
        """What a program prints."""
        done = subprocess.run(
            [sys.executable, "-c", self.here(program)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            cwd=self.directory,
            env=self._environment,
            check=False,
        )
        assert done.returncode == 0, (program, done.stderr)
        return done.stdout

    def end(self) -> None:
        self._shell.communicate(b"kill $(jobs -p); wait\n", PATIENCE_SECONDS)
