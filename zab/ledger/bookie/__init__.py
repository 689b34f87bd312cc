"""One bookie, without I/O: requests and answers of its storage in, answers and changes of files out.

Begin with `bookie.py`, which has the step, and `events.py`, which has what goes in and out.
"""
