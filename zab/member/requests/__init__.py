"""Requests, from the frame of a client to its answer."""
