"""ZooKeeper's own command line (`ZooKeeperMain`, from the jars) against ours: one script, run against both servers,
prints the same lines.

zxids, times, session ids and ports differ between two runs and are masked: zxids by their rank, so that their order and
equality are still compared.
"""

from __future__ import annotations

import re
from difflib import unified_diff

import pytest

from tests.rigs.zookeeper_server import ZooKeeperEnsemble, zookeeper_main

pytestmark = [pytest.mark.java, pytest.mark.slow]

BOB_ID = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="

SCRIPT = f"""\
create /cli one
create /cli/plain data
create -s /cli/seq- s
create -s -e /cli/seq- s
create -e /cli/ephemeral e
create -c /cli/container c
create -t 3600000 /cli/ttl t
create /cli/plain again
create /cli/none/below x
create /cli/ephemeral/below x
create /cli/acl secret world:anyone:ra
create bad
ls /cli
ls -s /cli
ls -R /cli
ls /cli/none
get /cli/plain
get -s /cli/plain
get -s /cli/ephemeral
get /cli/none
set /cli/plain changed
set -s /cli/plain again
set -v 2 /cli/plain third
set -v 2 /cli/plain stale
set /cli/none x
set /cli/acl x
stat /cli
stat /cli/plain
stat /cli/none
getAcl /cli/plain
getAcl -s /cli/acl
setAcl /cli/plain digest:{BOB_ID}:cdrwa
get /cli/plain
getAcl /cli/plain
whoami
addauth digest bob:pw
whoami
get /cli/plain
getAcl -s /cli/plain
setAcl -v 0 /cli/plain world:anyone:cdrwa
setAcl -R /cli world:anyone:cdrwa
setAcl /cli/plain nobody:x:ra
create /cli/mine m auth::cdrwa
getAcl /cli/mine
sync /cli
sync /cli/none
getEphemerals
getEphemerals /cli
getEphemerals /cli/seq
getAllChildrenNumber /cli
getAllChildrenNumber /cli/none
get -w /cli/plain
set /cli/plain watched
ls -w /cli
create /cli/watched w
stat -w /cli/watched
delete /cli/watched
addWatch -m PERSISTENT /cli
addWatch /cli/plain
set /cli/plain recursively
create /cli/plain/child c
delete /cli/plain/child
removewatches /cli/plain
removewatches /cli/none
removewatches /cli
setquota -n 5 /cli/container
listquota /cli/container
create /cli/container/a aaaa
create /cli/container/b bbbb
listquota /cli/container
get /zookeeper/quota/cli/container/zookeeper_stats
setquota -B 10 /cli/container
listquota /cli/container
create /cli/container/c cccccccccccc
setquota -n 9 /cli/container/a
delquota -n /cli/container
listquota /cli/container
delquota /cli/container
listquota /cli/container
delete /cli/container
delete -v 7 /cli/plain
delete /cli/plain
delete /cli/plain
delete /zookeeper
reconfig -remove 3
deleteall /cli
deleteall /cli
ls /
close
ls /
quit"""


def lines_of(ensemble: ZooKeeperEnsemble) -> list[str]:
    """What the script prints: prompt and noise taken off, zxids, times, sessions and ports masked; events last.

    Events are printed by a thread of their own, so where they stand among the answers is chance. That the client is
    closed may come too late to be printed at all.
    """
    done = zookeeper_main(ensemble.hosts, *SCRIPT.splitlines()[:-1])
    assert done.returncode == 0, done.stderr.decode()
    printed = done.stdout.decode() + done.stderr.decode()
    printed = re.sub(r"\[zk: [^]]*\] ", "", printed)
    printed = re.sub(r"^\d{4}-\d\d-\d\d.*\n", "", printed, flags=re.MULTILINE)
    printed = re.sub(r"ime = .*\d{4}", "ime = (time)", printed)
    printed = re.sub(r"ephemeralOwner = 0x[0-9a-f]{8,}", "ephemeralOwner = (session)", printed)
    printed = printed.replace(ensemble.hosts, "(hosts)")
    zxid = r"(?<=[Zz]xid = )0x[0-9a-f]+|(?<= zxid: )\d+"
    ranks = {number: rank for rank, number in enumerate(sorted({int(found, 0) for found in re.findall(zxid, printed)}))}
    printed = re.sub(zxid, lambda found: f"({ranks[int(found[0], 0)]})", printed)
    # What comes out of a hash table there has no order: names of ephemerals, and identities.
    printed = re.sub(
        r"(?<=^\[).*(?=\]$)", lambda found: ", ".join(sorted(found[0].split(", "))), printed, flags=re.MULTILINE
    )
    printed = re.sub(
        r"(?:^\w+: [\w.]+\n)+", lambda found: "".join(sorted(found[0].splitlines(True))), printed, flags=re.MULTILINE
    )
    lines = [line for line in printed.splitlines() if line and line != "WATCHER::" and "state:Closed" not in line]
    return sorted(lines, key=lambda line: line.startswith("WatchedEvent "))


def test_the_command_line_prints_the_same(quiet: ZooKeeperEnsemble, theirs: ZooKeeperEnsemble) -> None:
    mine, other = lines_of(quiet), lines_of(theirs)
    assert mine == other, "\n".join(unified_diff(mine, other, "ours", "theirs", lineterm=""))
    assert len(mine) > 150, "the script did not run to its end"
