"""What a broker knows of the cluster: brokers, topics, the state of every partition. The controller says it."""
