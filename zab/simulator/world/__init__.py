"""The simulated world, which knows no service: whatever has a turn (`zab.host.loop.loop`) can live in it.

    schedule      virtual time and the queue of what happens next
    trace         what happened, as lines for a reader and as one hash
    network       who reaches whom, how fast; wires that keep their order
    disk          files that lose what was not synced, and tear what was being written
    machine       what outlives a process: disk, clocks, and its next start
    process       one process while it lives: its turns, pauses and end
    links, sockets, log_thread, job_thread      what `zab.host` has under these names, for such a process
    verdict       how a run can fail

Imports `zab.wire` alone.
"""
