"""The simulated world, which knows no service: any service with a turn (`zab.host.loop.loop`) can run in it.

    schedule                                virtual time and the queue of what happens next
    trace                                   the events of a run, as lines for a reader and as one hash
    network                                 reachability and delays; wires that keep their order
    disk                                    files that lose unsynced data, and tear writes
    machine                                 what outlives a process: disk, clocks, and its next start
    process                                 a running process: its turns, pauses and end
    links, sockets, log_thread, job_thread  the counterparts of these modules in `zab.host`
    verdict                                 the ways in which a run can fail

Imports only `zab.wire`.
"""
