"""From files to a state: recovery at the start, replay, what retention lets go, and looking back into old files.

Imports `datatree` and `datatree.log`; files only through a `Disk` that is handed in.
"""
