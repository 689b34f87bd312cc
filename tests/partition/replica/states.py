"""States of a partition, as the controller says them."""

from zab.partition.image.partition_state import PartitionState


def a_state(isr=(1, 2, 3), *, leader=1, leader_epoch=5, partition_epoch=7, replicas=(1, 2, 3), **others):
    epochs = others.pop("broker_epochs", {replica: 100 + replica for replica in replicas})
    return PartitionState(
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        isr=isr,
        replicas=replicas,
        broker_epochs=epochs,
        **others,
    )
