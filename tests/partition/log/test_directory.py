"""The log directory of a broker."""

import pytest

from tests.partition.log.rig import NOW, TOPIC_ID, Stored, batch, settings
from zab.host.storage.disk import RealDisk
from zab.kafka.errors import ErrorCode
from zab.partition.log.checkpoints import MetaProperties, TopicPartition
from zab.partition.log.directory import LOCK_FILE, ForeignDirectoryError, LogDirectory
from zab.partition.log.errors import InconsistentTopicIdError
from zab.partition.log.files import Files
from zab.simulator.world.disk import FaultyDisk

OWNER = MetaProperties(1, "cluster")
A = TopicPartition("a-b.c", 7)


@pytest.fixture(params=["simulated", "real"])
def disk(request, tmp_path):
    if request.param == "simulated":
        yield FaultyDisk()
        return
    real = RealDisk(str(tmp_path / "data"), lock_file=LOCK_FILE)
    yield real
    real.close()


def created(disk, directory: LogDirectory, where: TopicPartition = A) -> Stored:
    stored = Stored(disk, Files(disk), directory.create(where, TOPIC_ID, settings(), NOW))
    stored.store()
    return stored


def started(disk, directory: LogDirectory, where: TopicPartition = A) -> Stored:
    found = directory.recover(where, TOPIC_ID, settings(), NOW)
    return Stored(disk, Files(disk), found.log, found.notes)


def test_new_directory_belongs_to_its_broker(disk):
    assert LogDirectory(disk, OWNER).partitions == []
    assert disk.read("meta.properties") == b"version=0\nbroker.id=1\ncluster.id=cluster\n"
    LogDirectory(disk, OWNER)
    for other in (MetaProperties(2, "cluster"), MetaProperties(1, "other")):
        with pytest.raises(ForeignDirectoryError):
            LogDirectory(disk, other)
    disk.replace("meta.properties", b"")
    with pytest.raises(ForeignDirectoryError):
        LogDirectory(disk, OWNER)


def test_logs_are_found_by_their_names(disk):
    directory = LogDirectory(disk, OWNER)
    for where in (A, TopicPartition("a", 0), TopicPartition("a", 12)):
        created(disk, directory, where).files.close()
    disk.open_append("lost+found/x", create=True).close()
    assert LogDirectory(disk, OWNER).partitions == [TopicPartition("a", 0), TopicPartition("a", 12), A]


def test_directories_of_others_are_left_alone(disk):
    for path in ("backup-2024/notes", "x-1/partition.metadata", "old-delete/0", "a-0.zz-delete/0"):
        disk.open_append(path, create=True).close()
    disk.open_append("begun-0/00000000000000000000.log", create=True).close()
    disk.open_append("begun-0/partition.metadata.tmp", create=True).close()
    disk.open_append("begun-1/00000000000000000000.log", create=True).write_durable(b"x")
    directory = LogDirectory(disk, OWNER)
    assert disk.directories() == ["a-0.zz-delete", "backup-2024", "begun-1", "old-delete", "x-1"]
    assert set(map(str, directory.partitions)) == {"backup-2024", "begun-1", "x-1"}


def test_clean_stop_and_start(disk):
    directory = LogDirectory(disk, OWNER)
    assert not directory.is_clean
    stored = created(disk, directory)
    stored.add(batch(), batch())
    stored.log.update_high_watermark(1)
    stored.log.advance_start(1)
    stored.log.close()
    stored.store()
    stored.files.perform(directory.clean_shutdown({A: stored.log}))
    stored.files.close()
    assert disk.read("recovery-point-offset-checkpoint") == b"0\n1\na-b.c 7 2\n"
    assert disk.read("log-start-offset-checkpoint") == b"0\n1\na-b.c 7 1\n"
    assert disk.read("replication-offset-checkpoint") == b"0\n1\na-b.c 7 1\n"
    again = LogDirectory(disk, OWNER)
    assert again.is_clean
    found = started(disk, again)
    assert (found.log.log_start, found.log.high_watermark, found.log.log_end) == (1, 1, 2)
    assert not LogDirectory(disk, OWNER).is_clean, "the next start is clean only after another clean stop"


def test_clean_stop_needs_every_log_to_be_synced(disk):
    directory = LogDirectory(disk, OWNER)
    stored = created(disk, directory)
    stored.add(batch())
    with pytest.raises(AssertionError):
        directory.clean_shutdown({A: stored.log})
    stored.files.close()


def test_damaged_marks_are_0(disk):
    directory = LogDirectory(disk, OWNER)
    stored = created(disk, directory)
    stored.add(batch())
    stored.commit()
    stored.files.perform([directory.save_high_watermarks({A: stored.log})])
    stored.files.close()
    assert started(disk, LogDirectory(disk, OWNER)).log.high_watermark == 1
    disk.replace("replication-offset-checkpoint", b"0\n7\n")
    again = LogDirectory(disk, OWNER)
    assert again.notes == ["replication-offset-checkpoint: 0 entries instead of 7 -> every mark in it is 0"]
    assert started(disk, again).log.high_watermark == 0


def test_s22_directory_of_another_topic_of_that_name_is_not_touched(disk):
    directory = LogDirectory(disk, OWNER)
    stored = created(disk, directory)
    stored.add(batch())
    stored.files.close()
    again = LogDirectory(disk, OWNER)
    assert again.topic_id(A) == TOPIC_ID
    before = {name: disk.read(f"{A}/{name}") for name in disk.list(str(A))}
    with pytest.raises(InconsistentTopicIdError) as raised:
        again.recover(A, bytes(16), settings(), NOW)
    assert raised.value.error is ErrorCode.INCONSISTENT_TOPIC_ID
    assert {name: disk.read(f"{A}/{name}") for name in disk.list(str(A))} == before
    assert started(disk, again).log.log_end == 1


def test_missing_partition_metadata_is_written(disk):
    directory = LogDirectory(disk, OWNER)
    created(disk, directory).files.close()
    disk.remove(f"{A}/partition.metadata")
    again = LogDirectory(disk, OWNER)
    assert again.topic_id(A) is None
    started(disk, again).files.close()
    assert again.topic_id(A) == TOPIC_ID
    disk.replace(f"{A}/partition.metadata", b"version: 9\n")
    assert again.topic_id(A) is None
    assert again.notes


def test_deleted_log_is_out_of_the_way_at_once_and_gone_later(disk):
    directory = LogDirectory(disk, OWNER)
    stored = created(disk, directory)
    stored.append(batch())
    rename, remove = directory.deletion(A, bytes(range(16)))
    stored.files.perform([*stored.log.take_effects(), rename])
    name = "a-b.c-7.000102030405060708090a0b0c0d0e0f-delete"
    assert disk.directories() == [name]
    again = created(disk, directory)
    again.add(batch())
    assert again.log.log_end == 1
    stored.files.perform([remove])
    assert disk.directories() == [str(A)]
    again.files.close()
    stored.files.close()


def test_what_was_deleted_before_a_restart_is_gone_after_it(disk):
    directory = LogDirectory(disk, OWNER)
    stored = created(disk, directory)
    rename, _ = directory.deletion(A, bytes(16))
    stored.files.perform([rename])
    stored.files.close()
    assert LogDirectory(disk, OWNER).partitions == []
    assert disk.directories() == []


def test_name_of_a_deleted_directory_is_not_too_long():
    long = TopicPartition("t" * 249, 10)
    rename, remove = LogDirectory(FaultyDisk(), OWNER).deletion(long, bytes(16))
    assert (rename.directory, len(rename.new), remove.directory) == (str(long), 255, rename.new)
    assert rename.new.endswith("t-10.00000000000000000000000000000000-delete")


def test_marks_of_a_deleted_log_are_not_those_of_the_next_one():
    disk = FaultyDisk()
    directory = LogDirectory(disk, OWNER)
    stored = created(disk, directory)
    stored.add(batch(), batch())
    stored.commit()
    stored.log.advance_start(2)
    stored.files.perform([directory.save_log_starts({A: stored.log}), directory.save_high_watermarks({A: stored.log})])
    again = LogDirectory(disk, OWNER)
    rename, _ = again.deletion(A, bytes(16))
    stored.files.perform([rename])
    assert started(disk, again).log.log_start == 0
