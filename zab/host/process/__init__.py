"""The process of a service: its limits, its memory, its secrets, who supervises it, why it ends."""
