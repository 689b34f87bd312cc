"""The calls of Kafka's shell tools that are compared: a tool and its arguments, a line each."""

COMMANDS = """
topics --create --topic a --partitions 2 --replication-factor 1 --config max.message.bytes=50000
topics --create --topic a --if-not-exists
topics --create --topic b --partitions 1 --replication-factor 1
topics --list
topics --alter --topic b --partitions 3
topics --describe --topic a
topics --describe --topic b
topics --describe --under-replicated-partitions
produce --topic a --max-messages 100 --repeating-keys 20 --value-prefix 7 --acks -1 --throughput 100000
offsets --topic b
offsets --topic-partitions a --time earliest
delete-records --offset-json-file FILE
offsets --topic-partitions a:0 --time -2
consume --topic a --messages 20 --group readers --hide-header --timeout 60000
groups --list
groups --group readers --topic a:1 --reset-offsets --to-offset 3 --execute
groups --describe --group readers --state
groups --delete --group readers
configs --alter --entity-type topics --entity-name a --add-config segment.bytes=1048576
configs --describe --entity-type topics --entity-name a
configs --alter --entity-type topics --entity-name a --delete-config segment.bytes
configs --describe --entity-type topics --entity-name a
configs --alter USER_X --add-config producer_byte_rate=1048576,request_percentage=12.5
configs --alter USER_X --add-config controller_mutation_rate=7.5
configs --describe USER_X
configs --alter USER_X --delete-config controller_mutation_rate
configs --describe USER_X
configs --alter X_AND_APP --add-config consumer_byte_rate=2048
configs --alter DEFAULTS --add-config consumer_byte_rate=4096
configs --alter --entity-type clients --entity-default --add-config producer_byte_rate=8192
configs --describe --entity-type users
configs --describe --entity-type clients
configs --describe --entity-type clients --entity-default
configs --describe --entity-type users --entity-type clients
configs --describe X_AND_APP
configs --alter USER_X --delete-config producer_byte_rate
configs --alter USER_X --delete-config producer_byte_rate
configs --alter USER_X --add-config no.such.rate=1
configs --alter USER_X --add-config producer_byte_rate=1.5
configs --describe USER_X
configs --alter USER_X --delete-config request_percentage
configs --alter X_AND_APP --delete-config consumer_byte_rate
configs --alter DEFAULTS --delete-config consumer_byte_rate
configs --alter --entity-type clients --entity-default --delete-config producer_byte_rate
configs --describe --entity-type users --entity-type clients
elect --election-type preferred --all-topic-partitions
acls --add --allow-principal User:alice --operation Read --operation Write --topic a
acls --add --deny-principal User:bob --deny-host 10.0.0.1 --producer --topic b
acls --add --allow-principal User:carol --consumer --topic a --group readers
acls --add --allow-principal User:* --operation Describe --topic a --resource-pattern-type prefixed
acls --list
acls --list --topic ab --resource-pattern-type match
acls --list --principal User:alice
acls --remove --force --allow-principal User:alice --operation Write --topic a
acls --remove --force --topic b
acls --list --topic *
acls --list
topics --delete --topic a
topics --delete --topic c
"""
