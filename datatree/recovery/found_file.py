"""A log file as recovery finds it, read once (`datatree.recovery.recover`)."""

from attrs import define

from datatree.log.disk import Disk
from datatree.log.frame import Frame, Scan, scan
from datatree.log.segment import SEGMENT_HEADER_BYTES, SegmentHeader, log_path


@define
class FoundFile:
    """A log file as it was found; `header` is None when it cannot be read."""

    first: int
    header: SegmentHeader | None
    found: Scan | None = None
    synced: int = 0

    @property
    def path(self) -> str:
        return log_path(self.first)

    def scan(self, disk: Disk) -> Scan:
        """All frames of the file."""
        if self.found is None:
            self.found = scan(disk.read(self.path), self.first, SEGMENT_HEADER_BYTES)
            self.synced = self.found.synced
        return self.found

    def promised_nothing(self, disk: Disk) -> bool:
        """Whether no batch in it can be read, and none was ever known to be durable: the file had just been begun."""
        found = self.scan(disk)
        return found.synced == 0 and not any(isinstance(part, Frame) and part.batches for part in found.parts)
