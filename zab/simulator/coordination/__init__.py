"""The simulated coordination service: its tree, its sessions, and the connections of those who use it."""
