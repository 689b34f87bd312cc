"""The files of ZooKeeper (`version-2`): read, verified, replayed with its own tolerance, and written for the way back.

Imports `datatree` and `datatree.log`; files only through a `Disk` that is handed in.
"""
