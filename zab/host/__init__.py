"""The trio kernel of a service: loop, sockets, links, threads, disk, files, TLS, HTTP, journal, process.

It knows no service: the meaning of bytes, effects and answers is handed in.
"""
