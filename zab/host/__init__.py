"""The trio kernel of a service: loop, sockets, links, log thread, job thread, disk, journal.

It knows no service: what bytes, effects and answers mean is handed in. Imports `zab.wire`, attrs and trio.
"""
