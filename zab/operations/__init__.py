"""Queries running members, and the machine of one: for status, checks, backups and support."""
