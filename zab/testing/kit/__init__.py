"""What the tests of every service need; nothing here knows what a service does.

ports       loopback ports that nobody listens on
groups      groups of members, and who does not hear whom
wires       connections between members, which a test can cut
life        one life of a service, in a thread of its own: start, pause, ask, end
in_thread   waiting from trio and asyncio for what blocks
journals    what members log, kept in memory
listeners   who is told of groups that a test opens
fixtures    what a fixture opens, shared by tests of one scope
reports     what members logged, in the report of a test that fails
clock       the time of a simulated world, for trio
scheduling  trio's choices, by a seed
simulation  a program on trio in a simulated world
"""
