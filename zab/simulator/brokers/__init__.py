"""Whole brokers of the partitioned log in the simulated world, with clients and a judge.

    znode_tree, coordination    the coordination service: one linearizable tree, sessions, and connections to it
    process, cluster            brokers on simulated ports; their machines
    client, producer, consumer, administrator    clients of Kafka's protocol
    judge, observer             what clients were told; what is true inside the brokers
    profile, faults, simulation what a seed decides, what goes wrong, and one run

A broker runs the turn of production (`zab.partition.turn`), with its files, its jobs and its codecs.
"""
