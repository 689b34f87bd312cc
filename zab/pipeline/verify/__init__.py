"""Whether members hold one history: the parts of the job `verify`."""
