"""Small ensembles, whole: every order of what can happen to a few peers within bounds, breadth first.

configurations  who votes, as text in a history
worlds        whom servers know by their files, who may decide next, who else is heard
site          one server: what is on its disk, its peer, and the storage effects that wait
keys          what of a server is its state, under every renaming of the servers
promises      what a server says is on its disk by then
sites         every state of a server that was met, and its steps, each computed once
verdict       the simulator's judge (`History`), as part of a state
ensemble      the state of an ensemble: its servers, its wires, what may still go wrong; and the steps from it
exploration   breadth first, symmetric states once; the shortest way to what is wrong, and its replay
"""
