"""Ledgers in the coordination service: read, create, change and delete them; which bookies there are."""
