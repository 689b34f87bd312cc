"""Whole brokers of the partitioned log in the simulated world, with clients and a judge.

    znode_tree, coordination    the coordination service: one linearizable tree, sessions, and connections to it
    process, cluster            brokers on simulated ports; their machines
    client, producer, consumer, administrator    clients of Kafka's protocol
    scripted_client             clients whose work is written as scripts
    group_member, assignors, committed_offsets          members of groups, and their judge
    transactional_producer, transformer, committed_reader, transactions     transactions, and their judge
    key_clients, keys           clients of compacted topics, and their judge
    workload                    which of these a run has, and how they come to their end
    judge, observer             what clients were told; what is true inside the brokers
    profile, faults, simulation what a seed decides, what goes wrong, and one run

A broker runs the turn of production (`zab.partition.turn`), with its files, its jobs and its codecs.
"""
