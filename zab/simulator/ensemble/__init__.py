"""A simulated ensemble: members, clients, faults, and judges.

profile       the properties of a run that its seed decides: sizes, limits, delays, faults and their rates
machine, process, ensemble        the machine of a member; its process, on the ports of the world; all members
tasks, fetch, election_links      ports of a member that the world lacks
client        a client that speaks the wire protocol and judges every answer; `requests` has its requests
faults        what goes wrong, and when
history, model, observer, session_checker, watch_checker      the judges
recorder      records the requests and answers of clients
linearizability, znode_order      judge the record alone, as `zab pipeline history` also does
external_clients
              connections of clients that are not simulated
described     shows an item in a line of the trace
simulation    one run: faults, then quiet, then it demands progress
"""
