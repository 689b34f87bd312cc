"""One ensemble member wired to the kernel: sockets, links, files and threads around `zab.member`.

It may import everything but the client, the command line, the simulator and the pipeline. This module imports nothing,
so that one part can be used without the others.
"""
