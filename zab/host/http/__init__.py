"""HTTP: ports, answers of an ASGI application, figures for Prometheus."""
