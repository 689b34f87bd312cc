"""Topics as DataFrames: the logs of partitions in brokers' log directories, ours and Kafka's own."""
