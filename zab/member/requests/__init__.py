"""The way of a request, from the frame of a client to its answer."""
