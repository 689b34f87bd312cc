"""The membership of the ensemble: restart, greetings, election connections, reconfiguration."""
