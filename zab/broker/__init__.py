"""A broker on the kernel: its sockets, its disk, its session with the coordination service.

Begin with `service.py`. What a broker does is in `zab.partition`.
"""
