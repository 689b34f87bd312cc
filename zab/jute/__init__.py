"""ZooKeeper's client protocol without I/O: frames, the handshake, and replies. Server and client share this code.

The package owns what surrounds a request on the wire; the bodies of requests are in `datatree.requests`. It imports
attrs and `datatree` (jute's primitives, requests, error codes), never trio or sockets.
"""
