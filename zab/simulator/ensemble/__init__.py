"""A simulated ensemble in that world: members, their clients, what goes wrong, and the judges of all that happens."""
