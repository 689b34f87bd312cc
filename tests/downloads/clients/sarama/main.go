// What a program with sarama does with topics, records, groups and transactions. Each line that it prints is the same on
// every broker.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const (
	topic   = "in-sarama"
	copied  = "in-sarama-copied"
	group   = "sarama"
	copying = "sarama-copying"
)

var (
	began   = time.UnixMilli(1_700_000_000_000)
	forEver = "-1"
	version = sarama.V3_7_0_0
)

func say(name string, what ...any) {
	fmt.Printf("%s: %s", name, fmt.Sprintln(what...))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func config() *sarama.Config {
	made := sarama.NewConfig()
	made.Version = version
	made.Producer.Return.Successes = true
	made.Producer.RequiredAcks = sarama.WaitForAll
	made.Producer.Partitioner = sarama.NewManualPartitioner
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.Offsets.AutoCommit.Enable = false
	made.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	made.Consumer.IsolationLevel = sarama.ReadCommitted
	return made
}

func idempotent() *sarama.Config {
	made := config()
	made.Producer.Idempotent = true
	made.Net.MaxOpenRequests = 1
	return made
}

func transactional(id string) *sarama.Config {
	made := idempotent()
	made.Producer.Transaction.ID = id
	return made
}

func message(to string, number int) *sarama.ProducerMessage {
	return &sarama.ProducerMessage{
		Topic:     to,
		Key:       sarama.StringEncoder(fmt.Sprint("key ", number)),
		Value:     sarama.StringEncoder(strings.Repeat("value ", 20)),
		Headers:   []sarama.RecordHeader{{Key: []byte("number"), Value: []byte{byte(number)}}},
		Timestamp: began.Add(time.Duration(number) * time.Second),
	}
}

func produce(address, name string, with *sarama.Config, codec sarama.CompressionCodec) {
	with.Producer.Compression = codec
	producer, err := sarama.NewSyncProducer([]string{address}, with)
	check(err)
	var messages []*sarama.ProducerMessage
	for number := 0; number < 10; number++ {
		messages = append(messages, message(topic, number))
	}
	check(producer.SendMessages(messages))
	say(name, messages[0].Offset, "to", messages[9].Offset)
	check(producer.Close())
}

func inTransactions(address string) {
	producer, err := sarama.NewSyncProducer([]string{address}, transactional("sarama-1"))
	check(err)
	for _, commits := range []bool{false, true} {
		check(producer.BeginTxn())
		for number := 0; number < 5; number++ {
			_, _, err := producer.SendMessage(message(topic, number))
			check(err)
		}
		if commits {
			check(producer.CommitTxn())
		} else {
			check(producer.AbortTxn())
		}
	}
	check(producer.Close())
	say("transactional", producer.TxnStatus()&sarama.ProducerTxnFlagInError == 0)
}

func fenced(address string) {
	first, err := sarama.NewSyncProducer([]string{address}, transactional("sarama-fenced"))
	check(err)
	check(first.BeginTxn())
	_, _, err = first.SendMessage(message(topic, 0))
	check(err)
	second, err := sarama.NewSyncProducer([]string{address}, transactional("sarama-fenced"))
	check(err)
	err = first.CommitTxn()
	say("fenced", errors.Is(err, sarama.ErrProducerFenced) || errors.Is(err, sarama.ErrInvalidProducerEpoch))
	_ = first.Close()
	check(second.Close())
}

// taking hands over each record of partition 0 to a function, until that one has had enough.
type taking struct {
	take func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage) (enough bool)
	stop context.CancelFunc
}

func (taking) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (taking) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (t taking) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case found, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			if t.take(session, found) {
				t.stop()
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func inGroup(address, id string, take func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage) bool) {
	consumer, err := sarama.NewConsumerGroup([]string{address}, id, config())
	check(err)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for ctx.Err() == nil {
		check(consumer.Consume(ctx, []string{topic}, taking{take, stop}))
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		panic("records did not come in a minute")
	}
	check(consumer.Close())
}

func taken(address string, count int) []*sarama.ConsumerMessage {
	var found []*sarama.ConsumerMessage
	inGroup(address, group, func(session sarama.ConsumerGroupSession, one *sarama.ConsumerMessage) bool {
		found = append(found, one)
		if len(found) < count {
			return false
		}
		session.MarkMessage(one, "")
		session.Commit()
		return true
	})
	return found
}

// copies reads records and writes them with the group's offsets in one transaction each.
func copies(address string) {
	producer, err := sarama.NewSyncProducer([]string{address}, transactional("sarama-copies"))
	check(err)
	count := 0
	inGroup(address, copying, func(_ sarama.ConsumerGroupSession, one *sarama.ConsumerMessage) bool {
		check(producer.BeginTxn())
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{
			Topic: copied, Key: sarama.ByteEncoder(one.Key), Value: sarama.ByteEncoder(one.Value)})
		check(err)
		check(producer.AddMessageToTxn(one, copying, nil))
		check(producer.CommitTxn())
		count++
		return count == 10
	})
	check(producer.Close())
	say("copied", count)
}

func administer(address string, admin sarama.ClusterAdmin) {
	groups, err := admin.ListConsumerGroups()
	check(err)
	say("groups", groups[group], groups[copying])
	described, err := admin.DescribeConsumerGroups([]string{group})
	check(err)
	say("group", described[0].GroupId, described[0].State, described[0].ProtocolType, len(described[0].Members))
	for _, each := range []string{group, copying} {
		offsets, err := admin.ListConsumerGroupOffsets(each, map[string][]int32{topic: {0}})
		check(err)
		say("offset", each, offsets.GetBlock(topic, 0).Offset)
	}
	check(admin.DeleteConsumerGroupOffset(copying, topic, 0))
	settings, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic,
		ConfigNames: []string{"cleanup.policy", "retention.ms"}})
	check(err)
	sort.Slice(settings, func(a, b int) bool { return settings[a].Name < settings[b].Name })
	for _, each := range settings {
		say("setting", each.Name, each.Value, each.Source, each.ReadOnly, each.Sensitive)
	}
	compact := "compact"
	check(admin.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{
		"cleanup.policy": {Operation: sarama.IncrementalAlterConfigsOperationAppend, Value: &compact}}, false))
	settings, err = admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic,
		ConfigNames: []string{"cleanup.policy"}})
	check(err)
	say("changed", settings[0].Value)
	check(admin.DeleteRecords(topic, map[int32]int64{0: 12}))
	check(admin.CreatePartitions(topic, 3, nil, false))
	topics, err := admin.DescribeTopics([]string{topic})
	check(err)
	say("partitions", len(topics[0].Partitions), topics[0].Partitions[0].Replicas)
	brokers, controller, err := admin.DescribeCluster()
	check(err)
	say("cluster", len(brokers), brokers[0].ID() == controller)
	logs, err := admin.DescribeLogDirs([]int32{controller})
	check(err)
	say("logs", len(logs[controller]), logs[controller][0].ErrorCode)
	check(admin.CreateACL(sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: topic,
		ResourcePatternType: sarama.AclPatternLiteral}, sarama.Acl{Principal: "User:someone", Host: "*",
		Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow}))
	name := topic
	matched, err := admin.DeleteACL(sarama.AclFilter{ResourceType: sarama.AclResourceTopic, ResourceName: &name,
		ResourcePatternTypeFilter: sarama.AclPatternLiteral, Operation: sarama.AclOperationAny,
		PermissionType: sarama.AclPermissionAny}, false)
	check(err)
	say("access", len(matched), matched[0].Principal, matched[0].Operation)
	check(admin.DeleteConsumerGroup(group))
	say("gone", errors.Is(admin.DeleteConsumerGroup(group), sarama.ErrGroupIDNotFound))
	say("gone with its offset", errors.Is(admin.DeleteConsumerGroup(copying), sarama.ErrGroupIDNotFound))
}

func main() {
	address := os.Args[1]
	admin, err := sarama.NewClusterAdmin([]string{address}, config())
	check(err)
	check(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1,
		ConfigEntries: map[string]*string{"retention.ms": &forEver}}, false))
	check(admin.CreateTopic(copied, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false))
	say("again", errors.Is(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false),
		sarama.ErrTopicAlreadyExists))
	produce(address, "none", idempotent(), sarama.CompressionNone)
	produce(address, "gzip", idempotent(), sarama.CompressionGZIP)
	produce(address, "snappy", config(), sarama.CompressionSnappy)
	produce(address, "lz4", config(), sarama.CompressionLZ4)
	produce(address, "zstd", config(), sarama.CompressionZSTD)
	inTransactions(address)
	fenced(address)
	found := taken(address, 55)
	last := found[54]
	say("read", len(found), "the last", last.Offset, string(last.Key), last.Headers[0].Value, last.Timestamp.UnixMilli())
	copies(address)
	client, err := sarama.NewClient([]string{address}, config())
	check(err)
	at, err := client.GetOffset(topic, 0, began.UnixMilli()+3500)
	check(err)
	end, err := client.GetOffset(copied, 0, sarama.OffsetNewest)
	check(err)
	say("offsets", at, end)
	administer(address, admin)
	begins, err := client.GetOffset(topic, 0, sarama.OffsetOldest)
	check(err)
	say("begins", begins)
	check(admin.DeleteTopic(topic))
	check(admin.DeleteTopic(copied))
	for {
		topics, err := admin.ListTopics()
		check(err)
		_, isThere := topics[topic]
		_, isCopied := topics[copied]
		if !isThere && !isCopied {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	say("deleted", true)
	check(client.Close())
	check(admin.Close())
}
