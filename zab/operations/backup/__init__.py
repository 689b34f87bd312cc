"""Backups of a running ensemble: taking them from a member, keeping them, reading them back; docs/backup.md."""
