"""The process of a service: its limits, its memory, its supervisor, its exit code."""
