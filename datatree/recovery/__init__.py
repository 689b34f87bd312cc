"""From files to a state: recovery at the start, replay, retention, and looking back into old files.

Imports `datatree` and `datatree.log`; files only through a `Disk` argument.
"""
