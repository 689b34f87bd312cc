"""Recorded client histories and what can be wrong with them: the parts of the job `history`."""
