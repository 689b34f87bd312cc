"""What several commands say of a partition, out of what kafka-python tells of it."""

from __future__ import annotations

import base64
import uuid
from typing import Any

__all__ = ["id_text", "is_offline", "is_under_replicated"]


def id_text(topic_id: Any) -> str | None:
    """A topic's id as Kafka writes it, 22 characters of base64url; None for none."""
    if topic_id is None:
        return None
    return base64.urlsafe_b64encode(uuid.UUID(str(topic_id)).bytes).decode().rstrip("=")


def is_under_replicated(partition: dict[str, Any]) -> bool:
    return len(partition["isr_nodes"]) < len(partition["replica_nodes"])


def is_offline(partition: dict[str, Any]) -> bool:
    return int(partition["leader_id"]) < 0
