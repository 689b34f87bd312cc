"""Backups of a running ensemble: taking them from a member, keeping them, reading them back; docs/how-to/back-up.md."""
