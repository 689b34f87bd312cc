"""A whole ensemble in one thread, from one seed: members, clients, network, disks and clocks are simulated.

    world/        time, network, disks, machines, processes and their ports, for any service
    ensemble/     members and clients in that world, faults, and the judges

Nothing is wired twice: a simulated process runs the turn of the server (`zab.member.turn`), with its member, storage,
log, recovery, retention and codecs, on simulated ports. It imports only pure rooms: no trio, thread, socket, real file
or real time.
"""
