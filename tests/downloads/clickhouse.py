"""Run statements in ClickHouse's engine: `clickhouse.py PORT DIRECTORY`, with a JSON list of them on standard input.

What each of them said is a JSON list on standard output. It runs where chdb is installed, without this project.
"""

import json
import sys
from pathlib import Path

from chdb import session  # type: ignore[import-not-found]

_CONFIGURATION = """\
<clickhouse>
  <zookeeper>
    <node><host>127.0.0.1</host><port>{port}</port></node>
    <session_timeout_ms>10000</session_timeout_ms>
  </zookeeper>
  <keeper_map_path_prefix>/tables</keeper_map_path_prefix>
</clickhouse>
"""


def main(port: str, directory: str) -> None:
    configuration = Path(directory, "config.xml")
    configuration.write_text(_CONFIGURATION.format(port=port))
    engine = session.Session(f"{directory}/data?config-file={configuration}")
    said = []
    for statement in json.load(sys.stdin):
        try:
            said.append(str(engine.query(statement, "TSV")))
        except Exception as error:  # noqa: BLE001  (what it says is the answer)
            said.append(f"{type(error).__name__}: {error}")
    print(json.dumps(said))


main(*sys.argv[1:])
