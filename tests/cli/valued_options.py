"""Options that take a value."""

VALUED = {"-v", "--version", "-t", "--ttl", "--file"}
