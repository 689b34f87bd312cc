"""The process of a service: its signals, ports, limits, memory, supervisor and exit code."""
