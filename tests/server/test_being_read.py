"""A snapshot is being read until the last one who reads it has ended."""

from zab.server.being_read import BeingRead


def test_a_snapshot_is_being_read_until_the_last_reader_has_ended() -> None:
    being_read = BeingRead()
    with being_read.hold(7):
        with being_read.hold(7), being_read.hold(8):
            assert being_read == {7: 2, 8: 1}
        assert being_read == {7: 1}
    assert being_read == {}
