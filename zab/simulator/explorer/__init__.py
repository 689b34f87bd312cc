"""Explores small ensembles completely: every order of events of a few peers within bounds, breadth first.

configurations  configurations as texts in a history
worlds        the servers in files, possible next configurations, and outside voices
site          one server: its disk, its peer, and waiting storage effects
keys          the state of a server as a key, under every renaming of the servers
promises      checks that promises of a server are on its disk
sites         all states of servers found so far, and their steps, each computed once
verdict       the simulator's judge (`History`), as part of a state
ensemble      the state of an ensemble: servers, wires, remaining faults; and the steps from it
exploration   breadth-first search, with symmetric states once; the shortest way to an error, and its replay
"""
