"""What is made of several operations, with more than one client: locks, elections, queues and the like.

Each is a coroutine over a `Client` and uses nothing else, so all of them are for trio and asyncio alike. A module has
one recipe, and says what its znodes are, what it promises, and what may be lost:

    lock, lease, semaphore, election    who holds something; `holding` says what a holder has to know
    barrier                             who waits for whom
    queue                               items that are taken once
    counter                             a number that all add to
    party, discovery                    who is there
    following, cache, configuration     what is there, and how it changes

What they share: `contender` (a place in a queue), `presence` (an ephemeral of one's own), `receipts` (whether a
transaction was done), `errors`.
"""
