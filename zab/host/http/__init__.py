"""HTTP for an ASGI application."""
