"""A replica of one partition: as the leader, which producers write to, or as a follower, which copies the leader."""
