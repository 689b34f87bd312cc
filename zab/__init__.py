"""ZAB atomic broadcast, and the coordination service that is built on it."""
