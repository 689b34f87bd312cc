"""Clients that are simulated."""
