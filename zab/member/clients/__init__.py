"""The connections of clients, their identities, and the audit log."""
