"""What brokers say to each other: the messages of links, which links there are, and what is repeated."""
