"""The commands that run servers: one, an ensemble, a simulated one."""
