"""`zab pipeline`: `jobs` is the table of its jobs, `commands` makes commands of them; a module for each kind of job."""
