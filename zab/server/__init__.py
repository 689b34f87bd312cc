"""One ensemble member. `member` wires the pure parts (peer, processor, tree, sessions) into one `step`; the rest adds
trio, sockets, files, clocks and the admin server around it. It may import everything but the client, the command line,
the simulator and the pipeline. This module imports nothing, so that one part can be used without the others.
"""
