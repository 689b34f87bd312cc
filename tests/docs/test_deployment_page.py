"""docs/how-to/deploy.md and the files in docs/deploy: what they say is what the server knows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.docs.manifests import DEPLOY, PAGE, one
from tests.rigs.waiting import until
from tests.tidy.sources import ROOT
from zab.configuration.fields import settings_of
from zab.member.settings.config import Config
from zab.member.settings.zoo_cfg import parse
from zab.server import admin
from zab.server.__main__ import _options
from zab.service.version import VERSION
from zab.testing.kit.ports import free_ports

CONTAINERFILE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
COMPOSE_TEXT = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load(COMPOSE_TEXT)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


POD = one("StatefulSet")["spec"]["template"]["spec"]
[MEMBER] = POD["containers"]
[PREPARE] = POD["initContainers"]


def configured(text: str, my_id: int) -> Config:
    config = parse(text, "zoo.cfg", my_id=my_id)
    assert config.warnings == ()
    return config


def of_kubernetes(my_id: int = 1) -> Config:
    return configured(one("ConfigMap")["data"]["zoo.cfg"], my_id)


def of_compose(my_id: int = 1) -> Config:
    return configured((DEPLOY / "zoo.cfg").read_text(encoding="utf-8"), my_id)


def ports_of(config: Config) -> dict[str, int]:
    line = config.own_line
    assert line is not None
    assert config.clients.port is not None
    ports = {"client": config.clients.port, "quorum": line.quorum_port, "election": line.election_port}
    ports |= {"admin": config.admin.port} if config.admin.enabled else {}
    return ports | ({"metrics": config.metrics.port} if config.commands.exports_metrics else {})


# ----------------------------------------------------------------------------------------------------------- Kubernetes


def test_each_pod_is_a_server_of_the_configuration() -> None:
    replicas = one("StatefulSet")["spec"]["replicas"]
    service = one("StatefulSet")["spec"]["serviceName"]
    assert {sid: line.host for sid, line in of_kubernetes().ensemble.servers.items()} == {
        ordinal + 1: f"zab-{ordinal}.{service}" for ordinal in range(replicas)
    }
    for sid in range(1, replicas + 1):
        assert of_kubernetes(sid).own_line is not None


@pytest.mark.parametrize(("host", "sid"), [("zab-0", "1"), ("zab-12", "13"), ("my-zab-2", "3")])
def test_id_of_a_pod_follows_from_its_ordinal(host: str, sid: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    shell, option, script = PREPARE["command"]
    script = script.replace("/data/", f"{tmp_path}/").replace("/secret/secret", f"{tmp_path}/secret")
    script = script.replace("/run/zab/secret", f"{tmp_path}/own")
    subprocess.run([shell, option, script], check=True, env={**os.environ, "HOSTNAME": host})
    assert (tmp_path / "myid").read_text() == f"{sid}\n"
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o600


def test_ports_are_those_of_the_configuration() -> None:
    ports = ports_of(of_kubernetes())
    assert {each["name"]: each["containerPort"] for each in MEMBER["ports"]} == ports
    for service in ("zab", "zab-members"):
        for each in one("Service", service)["spec"]["ports"]:
            assert ports[each["targetPort"]] == each["port"]
    exposed = {each["name"] for each in one("Service", "zab-members")["spec"]["ports"]}
    assert exposed == {"quorum", "election", "metrics"}, "a ServiceMonitor finds the metrics of each member"
    ingress = one("NetworkPolicy")["spec"]["ingress"]
    named = [[port["port"] for port in rule["ports"]] for rule in ingress]
    assert named == [["client", "metrics"], ["quorum", "election"]]
    assert "from" in ingress[1]


def test_probes_ask_what_the_admin_server_answers() -> None:
    config = of_kubernetes()
    assert config.admin.enabled
    assert config.admin.address == "0.0.0.0"
    paths = set(re.findall(r'Route\("(/health/\w+)"', Path(admin.__file__).read_text(encoding="utf-8")))
    for name, path in {"readiness": "/health/ready", "liveness": "/health/live", "startup": "/health/live"}.items():
        probe = MEMBER[f"{name}Probe"]["httpGet"]
        assert probe == {"path": path, "port": "admin"}
        assert path in paths


def test_what_the_member_reads_and_writes_is_mounted_and_nothing_else_may_be_written() -> None:
    config = of_kubernetes()
    mounts = {each["mountPath"]: each for each in MEMBER["volumeMounts"]}
    volumes = {each["name"] for each in POD["volumes"]}
    volumes |= {each["metadata"]["name"] for each in one("StatefulSet")["spec"]["volumeClaimTemplates"]}
    assert {each["name"] for each in (*mounts.values(), *PREPARE["volumeMounts"])} <= volumes
    assert mounts[config.storage.data_dir]["name"] == "data"
    assert config.quorum.secret_file is not None
    assert str(Path(config.quorum.secret_file).parent) in mounts
    assert config.quorum.secret_file in PREPARE["command"][-1]
    assert _options(MEMBER["args"]).file == "/etc/zab/zoo.cfg"
    assert mounts["/etc/zab"]["name"] == "config"
    for container in (MEMBER, PREPARE):
        closed = container["securityContext"]
        assert closed["readOnlyRootFilesystem"]
        assert closed["capabilities"] == {"drop": ["ALL"]}
    assert POD["securityContext"]["runAsNonRoot"]


def test_selectors_find_the_pods_and_one_at_a_time_goes() -> None:
    labels = one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert one("StatefulSet")["spec"]["selector"]["matchLabels"] == labels
    assert one("PodDisruptionBudget")["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    assert one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
    members = one("Service", "zab-members")["spec"]
    assert members["selector"] == labels
    assert members["clusterIP"] == "None"
    assert members["publishNotReadyAddresses"]
    assert one("StatefulSet")["spec"]["podManagementPolicy"] == "Parallel"


def test_image_of_all_containers_is_of_this_version_and_named_once() -> None:
    text = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
    [named] = re.findall(r"image: &image (\S+)", text)
    assert {container["image"] for container in (MEMBER, PREPARE)} == {named}
    assert text.count(named) == 1
    assert named.endswith(f"/zab:{VERSION}"), "with a tag, so that it is not fetched at each start"
    assert f"`{named}`" in PAGE


def test_no_node_has_two_members_and_each_has_the_memory_that_is_reckoned() -> None:
    labels = one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    [apart] = POD["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart == {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    reckoning = (ROOT / "docs" / "explanation" / "sizing.md").read_text(encoding="utf-8")
    [mib] = re.findall(r"^memory ([\d,]+) MiB", reckoning, re.M)
    limit = MEMBER["resources"]["limits"]["memory"]
    assert limit.endswith("Gi")
    assert 2 * int(mib) <= 1024 * int(limit.removesuffix("Gi")) < 3 * int(mib)


# --------------------------------------------------------------------------------------------- compose, and the image


def test_members_of_compose_are_those_of_its_configuration() -> None:
    servers = of_compose().ensemble.servers
    ports = ports_of(of_compose())
    for sid, line in servers.items():
        service = COMPOSE["services"][line.host]
        assert service["environment"] == {"MYID": str(sid)}
        assert service["ports"] == [f"127.0.0.1:{ports['client'] + sid - 1}:{ports['client']}"]
        assert f"data-{sid}:{of_compose().storage.data_dir}" in service["volumes"]
        assert "./zoo.cfg:/etc/zab/zoo.cfg:ro" in service["volumes"]
        assert service["entrypoint"][-1].endswith("exec python -m zab.server /etc/zab/zoo.cfg")
        assert (
            f"http://{of_compose().admin.address}:{ports['admin']}/health/ready" in service["healthcheck"]["test"][-1]
        )
    assert set(COMPOSE["services"]) == {line.host for line in servers.values()} | {"secret"}
    made = shlex.split(COMPOSE["services"]["secret"]["entrypoint"][-1])
    assert made[-3:] == ["zab", "secret", of_compose().quorum.secret_file]


def test_image_has_what_the_package_is_made_of_and_the_ports_of_the_configuration() -> None:
    copied = set(re.findall(r"^COPY (.*) /src/", CONTAINERFILE, re.M))
    assert copied == {"pyproject.toml README.md LICENSE", "zab", "datatree", "session"}
    names = " ".join(copied).split()
    for name in names:
        assert (ROOT / name).exists()
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[1] == "*", "nothing comes into the image or its build, except"
    assert sorted(line[1:] for line in ignored if line.startswith("!")) == sorted(names)
    [extras] = re.findall(r"^ARG EXTRAS=(.*)$", CONTAINERFILE, re.M)
    assert set(extras.split(",")) == {"backup", "tracing"} <= set(PROJECT["project"]["optional-dependencies"])
    [exposed] = re.findall(r"^EXPOSE (.*)$", CONTAINERFILE, re.M)
    assert set(map(int, exposed.split())) == set(ports_of(of_kubernetes()).values())
    [user] = re.findall(r"^USER (\d+):", CONTAINERFILE, re.M)
    assert POD["securityContext"]["runAsUser"] == POD["securityContext"]["fsGroup"] == int(user)


def builder() -> str:
    """A program that builds images, and runs."""
    for name in ("podman", "docker"):
        path = shutil.which(name)
        if path is not None and subprocess.run([path, "info"], capture_output=True, check=False).returncode == 0:
            return path
    pytest.skip("neither podman nor docker runs here")


@pytest.fixture
def image() -> Iterator[str]:
    """The image of the Containerfile, as built here."""
    program = builder()
    for base in re.findall(r"^FROM (\S+)", CONTAINERFILE, re.M):
        had = ([program, "image", "inspect", base], [program, "pull", "-q", base])
        if all(subprocess.run(way, capture_output=True, check=False).returncode for way in had):
            pytest.skip(f"{base} cannot be had here")
    name = f"zab-test-{os.getpid()}"
    build = [program, "build", "-q", "-t", name, "-f", str(DEPLOY / "Containerfile"), str(ROOT)]
    subprocess.run(build, check=True, timeout=900)
    yield name
    subprocess.run([program, "image", "rm", "--force", name], capture_output=True, check=False)


def composer() -> list[str]:
    """The command that runs compose files with the program that built the image."""
    program = builder()
    for command in ([program, "compose"], [shutil.which("podman-compose") or "podman-compose"]):
        with suppress(FileNotFoundError):
            if subprocess.run([*command, "version"], capture_output=True, check=False).returncode == 0:
                return command
    pytest.skip(f"{Path(program).name} has no compose here")


@pytest.mark.slow
def test_image_is_built_and_backs_up_and_restores_and_has_spans(image: str) -> None:
    script = """
        cd /tmp; printf 'dataDir=/data\nclientPort=2181\n' > zoo.cfg
        cd /tmp; echo DigestAuthenticationProvider.superDigest=super:VWtk8RlLl86/uVG5FIHgpHieL2Q= >> zoo.cfg
        cd /tmp; python -m zab.server zoo.cfg 2> journal &
        cd /tmp; zab --wait 120 create /kept "in the image"
        echo digest:super:wire | zab --auth - backup take backups --admin 127.0.0.1:8080
        zab restore backups --to 1=new/1 && zab snapshot new/1/version-1/snapshot.*
        python -c 'import opentelemetry.sdk.trace, opentelemetry.exporter.otlp.proto.http.trace_exporter'
    """
    run = [builder(), "run", "--rm", "--entrypoint", "sh", image, "-ec", script]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "Created /kept" in done.stdout
    assert "lineage" in done.stdout
    assert "/kept" in done.stdout.partition("lineage")[2]


@pytest.mark.slow
def test_members_of_compose_serve_and_keep_their_data(image: str, tmp_path: Path) -> None:
    """The file is unchanged, except for the ports on this machine and the image, which exists already."""
    ports = free_ports(3)
    text = re.sub(r"(?m)^  build:\n(    .*\n)+", "", COMPOSE_TEXT).replace("image: zab", f"image: {image}")
    for port, standard in zip(ports, (2181, 2182, 2183), strict=True):
        text = text.replace(f"127.0.0.1:{standard}:2181", f"127.0.0.1:{port}:2181")
    (tmp_path / "compose.yaml").write_text(text)
    shutil.copy(DEPLOY / "zoo.cfg", tmp_path)
    compose = [*composer(), "-p", f"zab-test-{os.getpid()}", "-f", str(tmp_path / "compose.yaml")]
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)

    def run(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    zab = (sys.executable, "-m", "zab")

    def status() -> subprocess.CompletedProcess[str]:
        asked = (*zab, "status", "-s", servers)
        return subprocess.run(asked, capture_output=True, text=True, timeout=300, check=False)

    try:
        run(*compose, "up", "-d")
        run(*zab, "--wait", "120", "create", "-s", servers, "/kept", "through a restart")
        run(*compose, "down")
        run(*compose, "up", "-d")
        assert run(*zab, "--wait", "120", "get", "-s", servers, "/kept") == "through a restart\n"
        # Two of them answer before the third has followed.
        until(lambda: "all is well" in status().stdout, lambda: f"all is well: {status().stdout}")
    finally:
        subprocess.run([*compose, "down", "-v"], capture_output=True, timeout=300, check=False)


# ---------------------------------------------------------------------------------------------------------- on a server

STAND_INS = {
    "scp": 'cp "${1}" .',
    "useradd": "",
    "systemctl": "",
    # Without owners, whom this machine does not have.
    "install": """args=; while [ $# -gt 0 ]; do case "$1" in -o|-g) shift 2;; *) args="$args $1"; shift;; esac; done
        exec /usr/bin/install $args""",
}
"""What would reach other machines or change this one: noted, and done within the test's directory."""


@pytest.mark.downloads
@pytest.mark.process
def test_the_commands_of_a_server_are_run_below_another_root(tmp_path: Path) -> None:
    section = PAGE.partition("## On a server\n")[2].partition("\n## ")[0]
    builds, sets_up = re.findall(r"```sh\n(.*?)```", section, re.S)
    root, stand_ins = tmp_path / "root", tmp_path / "stand-ins"
    for each in (root / "opt", root / "var/lib", root / "etc/systemd/system", stand_ins, tmp_path / "home"):
        each.mkdir(parents=True)
    for name, does in STAND_INS.items():
        (stand_ins / name).write_text(
            f'#!/bin/sh\necho "{name} $*" >> {shlex.quote(str(tmp_path / "noted"))}\n{does}\n'
        )
        (stand_ins / name).chmod(0o755)

    def moved(text: str) -> str:
        return re.sub(r"(?<![\w.])/(opt|etc|var)/", lambda found: f"{root}/{found[1]}/", text)

    environment = {**os.environ, "PATH": f"{stand_ins}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path / "home")}
    # What is installed is what has to run, and not this clone.
    environment.pop("PYTHONPATH", None)

    def run(text: str, directory: Path) -> str:
        done = subprocess.run(
            ["bash", "-euc", text], cwd=directory, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    wheels, copied = tmp_path / "wheels", tmp_path / "copied"
    copied.mkdir()
    # `make wheels` builds for Pythons that may not be here: tests/wheels runs it. This builds one of this Python.
    assert builds.startswith("make wheels PYTHONS=")
    (build,) = re.findall(r"`(pip wheel [^`]*)`", section)
    run(build.replace("pip ", f"{shlex.quote(sys.executable)} -m pip ", 1).replace("dist", str(wheels)), ROOT)
    (wheel,) = wheels.glob("zab-*.whl")
    shutil.copy(wheel, copied)
    shown = (ROOT / "docs" / "how-to" / "start.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```\n# zoo\.cfg.*?\n(.*?)```", shown, re.S)
    (copied / "zoo.cfg").write_text(moved(text))
    subprocess.run([sys.executable, "-m", "zab", "secret", str(copied / "secret")], check=True, capture_output=True)
    assert "zab service install --user" in sets_up
    # Without its option, the unit would be written to this machine's own directory.
    unit = root / "etc/systemd/system/zab.service"
    said = run(moved(sets_up).replace("service install", f"service install --directory {unit.parent}"), copied)
    assert "a server would start with it, server 1 of 3" in said
    (starts,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.M)
    python, *arguments = shlex.split(starts)
    assert Path(python).parent == root / "opt/zab/bin"
    assert arguments == ["-m", "zab.server", str(root / "etc/zab/zoo.cfg")]
    assert (root / "var/lib/zab/myid").read_text() == "1\n"
    assert (root / "etc/zab/secret").stat().st_mode & 0o777 == 0o600
    noted = (tmp_path / "noted").read_text()
    assert "useradd --system " in noted
    assert "systemctl enable --now --no-block zab\n" in noted
    of_wheel = f"import zab; assert zab.__file__.startswith({str(root)!r}), zab.__file__"
    subprocess.run([f"{root}/opt/zab/bin/python", "-c", of_wheel], cwd=copied, env=environment, check=True)
    for port in sorted(set(re.findall(r"clientPort=(\d+)", text) + re.findall(r":(\d+)", text))):
        assert port in section, f"port {port} is not named"


# ---------------------------------------------------------------------------------------------- logrotate, and the page


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("logrotate") is None, reason="logrotate is not here")
def test_logrotate_takes_its_file(tmp_path: Path) -> None:
    command = ["logrotate", "--debug", "--state", str(tmp_path / "state"), str(DEPLOY / "zab.logrotate")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr


def test_keys_and_files_of_the_page_are_there() -> None:
    keys = {setting.key for setting in settings_of(Config)}
    named = set(re.findall(r"`(log\.\w+|audit\.\w+|data(?:Log)?Dir|syncLimit)`", PAGE))
    assert named >= {"log.file", "dataDir", "dataLogDir"}
    assert named <= keys
    in_rotation = (DEPLOY / "zab.logrotate").read_text(encoding="utf-8")
    assert set(re.findall(r"log\.file\w*", in_rotation)) <= keys | {"log.file"}
    for path in re.findall(r"docs/deploy/[\w.]+", PAGE):
        assert (ROOT / path).is_file()


@pytest.mark.slow
@pytest.mark.long
def test_commands_print_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "zoo.cfg").write_text(f"dataDir={tmp_path}\nclientPort=2181\n")
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.S)
    steps = [step for block in blocks for step in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.M)]
    assert len(steps) == 3
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command, expected in steps:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PATH": path},
        )
        said = expected.split("…")[0]
        assert done.stdout.startswith(said), (command, done.stdout)


@pytest.mark.process
def test_a_member_runs_in_a_process_of_ones_own(tmp_path: Path) -> None:
    [port] = free_ports(1)
    (tmp_path / "zoo.cfg").write_text(
        f"dataDir=data\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
    )
    [program] = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    run = [sys.executable, "-c", program.replace("2181", str(port))]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(b'in this process', Stat(")
    assert (tmp_path / "data" / "version-1").is_dir()
