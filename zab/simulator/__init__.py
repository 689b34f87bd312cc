"""A whole ensemble in one thread, from one seed: whole members, clients, network, disks and clocks, all simulated.

    world/        what any service could run in: time, network, disks, machines, processes and their ports
    ensemble/     members and clients in that world, what goes wrong, and the judges

Nothing is wired twice: a simulated process runs the turn of the server (`zab.member.turn`), with its member, storage,
log, recovery, retention and codecs, on ports of its own. It imports pure rooms alone: no trio, thread, socket, real
file or real time.
"""
