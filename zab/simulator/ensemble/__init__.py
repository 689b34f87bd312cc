"""A simulated ensemble: members, their clients, what goes wrong, and the judges of all that happens.

profile       what a seed decides about its run: sizes, limits, delays, which faults and how often
machine, process, ensemble        one member's machine; its process, on the ports of the world; all of them
tasks, fetch, election_links      ports of a member that the world does not have
client        a client that speaks the wire protocol, and judges every answer; `requests` is what it asks
faults        what goes wrong, and when
history, model, observer, session_checker, watch_checker      the judges
recorder      what clients asked and were told
linearizability, znode_order      the judge of that alone; the other one is `zab pipeline history`
external_clients
              connections of clients that are not simulated
described     one item as a line of the trace shows it
simulation    one run: faults, then quiet, then progress is demanded
"""
