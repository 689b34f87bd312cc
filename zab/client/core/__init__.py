"""The client without I/O: the session that outlives its connections, requests and their answers, watches. Pure.

`session` and `connection` are the protocol; `runtime` finds a server and carries requests; `operations` are what can be
asked. Whoever drives it has a clock, streams and callers that wait: a backend (`faces`).
"""
