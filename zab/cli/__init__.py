"""The `zab` command: znode commands and their shell, servers, formatter tools, simulator.

`main` knows every command by name and imports the module of the one that is called. `znodes` has the commands that talk
to servers, `caller` runs them once, `shell` one after the other on one session. Everything may be imported from here;
nothing imports `zab.cli`.
"""
