"""The `zab` command.

`commands` is the table of all commands, and `main` the entry point, which imports the module of the one that is called.
The modules beside them are what several rooms need. `znodes` has the commands that talk to servers, and their shell;
`servers` those that run servers; `files` those that read and make members' files; `pipeline` the jobs on Spark. No room
imports another, and nothing outside imports `zab.cli`.
"""
