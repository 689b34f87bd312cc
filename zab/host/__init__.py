"""The trio kernel of a service: loop, sockets, links, log thread, job thread, disk, journal.

It knows no service: the meaning of bytes, effects and answers is handed in. Imports `zab.wire`, attrs and trio.
"""
