"""The settings of topics and of brokers, under Kafka's names. Pure."""
