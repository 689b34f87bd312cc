"""The trio kernel of a service: the loop with its sockets, the log thread, the disk, the journal.

It knows no service: what the bytes, effects and answers mean is handed in. Imports `datatree.log`, and trio.
"""
