"""Blocks of settings that any service can have, each with a prefix of its own: see `zab.configuration.fields`."""
