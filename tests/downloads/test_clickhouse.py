"""ClickHouse's own engine as a client of ours: what it asks Keeper for, it is answered as by Keeper.

It runs in the library chdb. Keeper's operations are those of the engine `KeeperMap`, whose table is a directory of
znodes: multiRead with parts that fail, checkNotExists, removeRecursive, multis.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.downloads.environments import environment
from tests.rigs.zab_server import zab_servers

pytestmark = [pytest.mark.downloads, pytest.mark.process, pytest.mark.slow]

CHDB = "chdb-core==26.9.0"
PROGRAM = Path(__file__).with_name("clickhouse.py")

KEY = "(key UInt64, value String) ENGINE = KeeperMap('/table') PRIMARY KEY key"
STATEMENTS = (
    (f"CREATE TABLE first {KEY}", ""),
    ("INSERT INTO first VALUES (1, 'a'), (2, 'b'), (3, 'c')", ""),
    ("SELECT * FROM first ORDER BY key", "1\ta\n2\tb\n3\tc\n"),
    ("SELECT value FROM first WHERE key IN (2, 9)", "b\n"),
    ("SELECT count() FROM first WHERE key IN (7, 8, 9)", "0\n"),
    ("INSERT INTO first VALUES (2, 'replaced'), (4, 'd')", ""),
    ("ALTER TABLE first UPDATE value = 'changed' WHERE key = 1", ""),
    ("DELETE FROM first WHERE key = 3", ""),
    (f"CREATE TABLE second {KEY}", ""),
    ("SELECT * FROM second ORDER BY key", "1\tchanged\n2\treplaced\n4\td\n"),
    ("INSERT INTO second SELECT number, toString(number) FROM numbers(300)", ""),
    ("SELECT count(), sum(key) FROM first", "300\t44850\n"),
    ("TRUNCATE TABLE first", ""),
    ("SELECT count() FROM second", "0\n"),
    ("DROP TABLE second SYNC", ""),
    ("DROP TABLE first SYNC", ""),
    (f"CREATE TABLE first {KEY}", ""),
    ("SELECT count() FROM first", "0\n"),
)


@pytest.mark.parametrize("extensions", ["true", "false"])
def test_its_tables_of_znodes(extensions: str, tmp_path: Path) -> None:
    python = environment("clickhouse", CHDB)
    with zab_servers(1, configuration={"keeperExtensionsEnabled": extensions}) as ensemble:
        (member,) = ensemble.members
        asked = json.dumps([statement for statement, _ in STATEMENTS])
        ran = subprocess.run(
            [python, PROGRAM, str(member.client_port), str(tmp_path)],
            input=asked,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr[-4000:]
    said = json.loads(ran.stdout)
    assert list(zip(STATEMENTS, said, strict=True)) == [(each, each[1]) for each in STATEMENTS]
