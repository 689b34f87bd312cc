"""ZooKeeper's client protocol without I/O: frames, the handshake, and replies. Server and client use the same code.

It owns what surrounds a request on the wire; the bodies of the requests are in `datatree.requests`. Imports attrs
and `datatree` (jute's primitives, requests, error codes); never trio or sockets.
"""
