"""The bodies of requests and responses, a file per family; names of messages and fields are Kafka's."""
