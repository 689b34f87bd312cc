"""The controller of a cluster of brokers, over the coordination service, without I/O: who is alive, which broker is the
controller, which replica leads a partition, and who writes all that down.

Begin with `coordination.py`, `znodes.py`, then `controller.py`.
"""
