"""The commands that run servers: one member, a local ensemble, simulated ensembles."""
