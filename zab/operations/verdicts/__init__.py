"""Verdicts on the health of an ensemble: its status, checks, and the catalogue of backups. Pure."""
