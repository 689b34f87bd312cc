"""A cluster whose writes are judged."""

import pytest

from tests.partition.controller.cluster import Cluster
from tests.partition.controller.judges import Judges


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers; one is the controller."""
    found = Cluster(7)
    Judges(found).watch()
    return found.started()
