"""The `zab` command.

`commands` is the table of all commands, and `main` the entry point, which imports the module of the one that is called.
The modules beside them are shared by several packages. `znodes` has the commands that talk to servers, and their shell;
`servers` those that run servers; `files` those that read and make members' files; `pipeline` the jobs on Spark. None of
these packages imports another, and no other package imports `zab.cli`.
"""
