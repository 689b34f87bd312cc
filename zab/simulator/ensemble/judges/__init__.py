"""The requests of clients, and the judges of members and of answers."""
