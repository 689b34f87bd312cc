"""docs/reference/formats.md says what the code does."""

import re
from pathlib import Path
from zlib import crc32

from datatree import snapshot
from datatree.log import batch, frame, segment
from datatree.record import decode_all
from tests.datatree.histories import Author, fresh_log
from zab.simulator.world.disk import FaultyDisk

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "formats.md").read_text()


def table_end(section: str, number: int = 0) -> int:
    """Where the last fixed field of the number-th table of a section ends."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    tables = [block for block in text.split("\n\n") if block.startswith("| offset")]
    rows = re.findall(r"^\| (\d+) \| (\d+) \|", tables[number], re.MULTILINE)
    ends = [int(offset) + int(size) for offset, size in rows]
    starts = [int(offset) for offset, _ in rows]
    assert starts[1:] == ends[:-1], f"{section}: the fields leave no gaps"
    return ends[-1]


def test_tables_have_the_sizes_of_the_structs():
    assert table_end("Batch") == batch.HEADER_BYTES
    assert table_end("Log file") == segment.SEGMENT_HEADER_BYTES
    assert table_end("Log file", 1) == frame.FRAME_HEADER_BYTES
    assert table_end("Index of a log file") == segment.INDEX_HEADER_BYTES
    assert table_end("Snapshot file") == snapshot.HEADER_BYTES
    assert table_end("Snapshot file", 1) == snapshot.CHUNK_HEADER_BYTES
    assert table_end("Snapshot file", 2) == snapshot.TRAILER_BYTES
    assert table_end("Small files") == 36


def test_example_checksum_is_right():
    assert f"    5\n    {crc32(b'currentEpoch 5'):08x}\n" in PAGE


def test_reader_of_the_page_reads_a_log(tmp_path):
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    for count in (1, 5, 3):
        log.append(author.write(count))
    log.idle()
    path = tmp_path / "log"
    path.write_bytes(disk.read(segment.log_path(author.batches[0].first)))
    namespace: dict[str, object] = {}
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code.replace('open(path, "rb").read()', "path.read_bytes()"), namespace)
    expected = [txn for made in author.batches for txn in decode_all(made.body, made.first, made.count)]
    found = list(namespace["transactions"](path))
    assert [(row[0], row[1], row[4], row[6].encode(), row[7]) for row in found] == [
        (txn.zxid, txn.time, txn.type, txn.path, txn.data) for txn in expected
    ]
