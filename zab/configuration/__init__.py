"""The machinery of settings: the syntax of properties files, server lines, fields, and keys that have no effect.

Each service has its own fields (`zab.member.settings.config`). Text is handed in. Imports no other room.
"""
