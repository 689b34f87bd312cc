"""Commands for whoever runs an ensemble: its status, what is wrong with it, backups, a bundle for support."""
