"""Commands for operators of an ensemble: status, diagnosis, backups, a bundle for support."""
