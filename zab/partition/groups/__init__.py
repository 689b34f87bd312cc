"""The group coordinator: Kafka's classic group protocol and the offsets that groups commit.

Requests, outcomes of appends, loaded records and the time in; answers, appends and the next deadline out. Knows no
clock, no log and no version of a message. Begin with `coordinator.py`.
"""
