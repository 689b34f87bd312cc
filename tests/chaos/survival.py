"""A while of chaos from which nothing may be wrong at the end: `chaos.run`, judged by both checkers."""

from __future__ import annotations

import contextlib
import random

from datatree.recovery.recover import recover
from tests.chaos.chaos import Misfortune, Report, run
from tests.chaos.records import judged
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember
from zab.host.storage.disk import RealDisk


def tree_of(member: ZooKeeperMember) -> tuple[int, int]:
    """(zxid, digest) of the tree that the stopped member's directory holds."""
    with contextlib.closing(RealDisk(str(member.data_directory))) as disk:
        recovered = recover(disk)
    assert not recovered.damage, [str(each) for each in recovered.damage]
    return recovered.tree.applied, recovered.tree.digest


def survived(ensemble: ZooKeeperEnsemble, seconds: float, misfortune: Misfortune) -> Report:
    """Fails where anything that clients were told does not hold."""
    seed = random.SystemRandom().randrange(1_000_000)
    report = run(ensemble, seconds=seconds, seed=seed, tree_of=tree_of, misfortune=misfortune)
    logs = "\n".join(f"--- server {each.server_id}\n{each.log_text()[-3000:]}" for each in ensemble.members)
    assert not report.violations, f"seed {seed}: {report}\n{logs}"
    assert not report.complaints, f"seed {seed}: {report}\n{logs}"
    assert judged(report.operations, report.replicas) == []
    assert report.acknowledged_count >= 20 * seconds, report
    print(f"seed {seed}: {report}")
    return report
