"""A whole ensemble in one thread, from one seed: whole members, clients, network, disks and clocks, all simulated.

    schedule      virtual time and the queue of what happens next
    trace         what happened, as lines for a reader and as one hash; `described` makes the text of one item
    profile       what a seed decides about its run: sizes, limits, delays, which faults and how often
    network       who reaches whom, how fast; wires that keep their order
    disk          files that lose what was not synced, and tear what was being written
    process       one member while its process lives: the host of `zab.member.member.Member`
    files         what that process does with its disk: log, snapshots, transfer, retention
    links         its election and quorum links
    machine       what outlives a process: disk, clocks, and its next start
    client        a client that speaks the wire protocol, and judges every answer; `requests` is what it asks
    faults        what goes wrong, and when
    history, model, observer, session_checker, watch_checker      the judges
    recorder      what clients asked and were told, for judges outside (`zab pipeline history`)
    simulation    one run: faults, then quiet, then progress is demanded

Nothing is wired twice: members, storage, log, recovery, retention and the codecs are those of the server. It imports
the pure parts alone: no trio, thread, socket, real file or real time.
"""
