"""Tools for the tests of any service; nothing here knows a service.

ports       loopback ports that nobody listens on
groups      groups of members that cannot reach each other
wires       connections between members, which a test can cut
life        one life of a service in a thread of its own: start, pause, ask, end
in_thread   blocking work in a thread, for trio and asyncio
journals    the journals of members, kept in memory
listeners   callbacks for groups that a test opens
fixtures    groups that tests of one scope share
reports     the journals of members in the report of a failed test
clock       the time of a simulated world, for trio
scheduling  trio's choices, by a seed
simulation  a program on trio in a simulated world
"""
