"""ZooKeeper's files (`version-2`): read, verified, replayed with its own tolerance, and written for the way back.

Imports `datatree` and `datatree.log`; files only through a `Disk` argument.
"""
