"""A Kerberos KDC on loopback, in a directory of its own: realm, principals, keytabs, tickets.

    with kdc(directory) as realm:
        key_tab = realm.key_tab("zookeeper/localhost")
        realm.ticket("alice")          # a file for KRB5CCNAME

It is MIT's (`apt-get install krb5-kdc krb5-admin-server krb5-user`). `environment` has what programs need to find it,
Java excepted, which wants `java_options`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs

from zab.testing.kit.ports import free_ports

_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
SERVES = "commencing operation"

_KRB5 = """
[libdefaults]
    default_realm = {realm}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    default_ccache_name = FILE:{directory}/ccache
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
[domain_realm]
    localhost = {realm}
"""
_KDC = """
[kdcdefaults]
    kdc_listen = 127.0.0.1:{port}
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
    {realm} = {{
        database_name = {directory}/principal
        key_stash_file = {directory}/stash
        acl_file = {directory}/acl
        max_life = 1h
    }}
[logging]
    kdc = STDERR
"""


def why_missing() -> str | None:
    """Why there can be no KDC here; None: there can."""
    missing = [program for program in PROGRAMS if shutil.which(program, path=_PATH) is None]
    if missing:
        return f"{missing[0]} is not there: apt-get install krb5-kdc krb5-admin-server krb5-user"
    try:
        import gssapi  # noqa: F401
    except ImportError:
        return "the library gssapi is not there: pip install 'zab[kerberos]'"
    return None


@attrs.define
class Realm:
    name: str
    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        cache = {"KRB5RCACHEDIR": str(self.directory), "KRB5CCNAME": f"FILE:{self.directory}/none"}
        files = {"KRB5_CONFIG": f"{self.directory}/krb5.conf", "KRB5_KDC_PROFILE": f"{self.directory}/kdc.conf"}
        return {**os.environ, "PATH": _PATH, **files, **cache}

    @property
    def java_options(self) -> tuple[str, ...]:
        return (f"-Djava.security.krb5.conf={self.directory}/krb5.conf",)

    def run(self, *command: str) -> None:
        subprocess.run(command, env=self.environment, check=True, stdin=subprocess.DEVNULL, capture_output=True)

    def key_tab(self, principal: str) -> Path:
        """A new principal, and its key; the default realm is this one."""
        path = self.directory / (principal.translate(str.maketrans("/@", "__")) + ".keytab")
        self.run("kadmin.local", "-r", self.name, "-q", f"addprinc -randkey {principal}")
        self.run("kadmin.local", "-r", self.name, "-q", f"ktadd -k {path} {principal}")
        path.chmod(0o600)
        return path

    def ticket(self, principal: str, *options: str) -> Path:
        """The cache of a new principal that has just got its ticket."""
        key_tab = self.key_tab(principal)
        path = self.directory / f"{key_tab.stem}.ccache"
        self.run("kinit", *options, "-c", f"FILE:{path}", "-k", "-t", str(key_tab), f"{principal}@{self.name}")
        return path


@contextlib.contextmanager
def kdc(directory: Path, name: str = "ZAB.TEST") -> Iterator[Realm]:
    """The realm while its KDC runs."""
    directory.mkdir(parents=True, exist_ok=True)
    [port] = free_ports(1)
    realm = Realm(name, directory)
    for file, text in (("krb5.conf", _KRB5), ("kdc.conf", _KDC)):
        (directory / file).write_text(text.format(realm=name, directory=directory, port=port))
    realm.run("kdb5_util", "create", "-s", "-r", name, "-P", "of this test alone")
    process = subprocess.Popen(
        ["krb5kdc", "-n", "-r", name], env=realm.environment, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    try:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line.decode())
            if SERVES in lines[-1]:
                break
        else:
            raise AssertionError("".join(lines))
        yield realm
    finally:
        process.kill()
        process.communicate()
