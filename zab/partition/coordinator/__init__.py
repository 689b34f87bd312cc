"""What the coordinators of groups and of transactions share: partitions, loads, appends, answers, deadlines.

A coordinator is a state machine whose records live in the partitions of an internal topic.
"""
