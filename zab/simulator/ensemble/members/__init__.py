"""Simulated members: production code on simulated ports, watched by an observer."""
