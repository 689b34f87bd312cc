"""How a service comes to the coordination service, by its settings: over TCP or TLS, with which login and ACLs."""
