"""Regular expressions of simulated groups: RE2 may not be installed, and every machine has to give the same run.

The few expressions of the workload mean the same to Python.
"""

from __future__ import annotations

import re
from functools import lru_cache

from zab.partition.consumer_groups.regexes import KEPT_MAX, TopicRegex


@lru_cache(maxsize=KEPT_MAX)
def topic_regex(text: str) -> TopicRegex:
    """The expression of this text."""
    pattern = re.compile(text)
    return TopicRegex(lambda name: pattern.fullmatch(name) is not None)
