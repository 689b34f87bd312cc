"""TLS: bytes in, bytes out; over a socket in the loop, and over a stream beside it."""
