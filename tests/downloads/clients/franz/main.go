// What a program with franz-go does with topics, records and groups. Each line that it prints is the same on every broker.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const topic = "in-go"

var (
	began   = time.UnixMilli(1_700_000_000_000)
	forEver = "-1"
)

func say(name string, what any) {
	fmt.Printf("%s: %v\n", name, what)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func client(address string, options ...kgo.Opt) *kgo.Client {
	found, err := kgo.NewClient(append(options, kgo.SeedBrokers(address))...)
	check(err)
	return found
}

func produce(ctx context.Context, address string, name string, codec kgo.CompressionCodec) {
	producer := client(address, kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer producer.Close()
	var records []*kgo.Record
	for number := 0; number < 10; number++ {
		records = append(records, &kgo.Record{
			Topic:     topic,
			Partition: 0,
			Key:       []byte(fmt.Sprintf("key %d", number)),
			Value:     []byte(strings.Repeat("value ", 20)),
			Headers:   []kgo.RecordHeader{{Key: "number", Value: []byte{byte(number)}}},
			Timestamp: began.Add(time.Duration(number) * time.Second),
		})
	}
	results := producer.ProduceSync(ctx, records...)
	check(results.FirstErr())
	say(name, fmt.Sprint(results[0].Record.Offset, " to ", results[9].Record.Offset))
}

func taken(ctx context.Context, consumer *kgo.Client, count int) []*kgo.Record {
	var found []*kgo.Record
	for len(found) < count {
		fetches := consumer.PollRecords(ctx, count-len(found))
		check(fetches.Err())
		found = append(found, fetches.Records()...)
	}
	return found
}

func inGroup(ctx context.Context, address string, count int) []*kgo.Record {
	consumer := client(address, kgo.ConsumerGroup("go"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer consumer.Close()
	found := taken(ctx, consumer, count)
	check(consumer.CommitRecords(ctx, found...))
	check(consumer.LeaveGroupContext(ctx))
	return found
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	address := os.Args[1]
	plain := client(address)
	defer plain.Close()
	admin := kadm.NewClient(plain)
	made, err := admin.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": &forEver}, topic)
	check(err)
	say("created", fmt.Sprint(made.Topic, " ", made.NumPartitions, " ", *made.Configs["retention.ms"].Value))
	_, err = admin.CreateTopic(ctx, 1, 1, nil, topic)
	say("again", errors.Is(err, kerr.TopicAlreadyExists))
	produce(ctx, address, "none", kgo.NoCompression())
	produce(ctx, address, "gzip", kgo.GzipCompression())
	produce(ctx, address, "snappy", kgo.SnappyCompression())
	produce(ctx, address, "lz4", kgo.Lz4Compression())
	produce(ctx, address, "zstd", kgo.ZstdCompression())
	found := inGroup(ctx, address, 30)
	last := found[29]
	say("read", fmt.Sprint(len(found), ", the last ", last.Offset, " ", string(last.Key), " ", last.Headers[0].Value))
	say("goes on", inGroup(ctx, address, 5)[0].Offset)
	committed, err := admin.FetchOffsets(ctx, "go")
	check(err)
	offset, _ := committed.Lookup(topic, 0)
	say("committed", offset.At)
	ends, err := admin.ListEndOffsets(ctx, topic)
	check(err)
	end, _ := ends.Lookup(topic, 0)
	say("ends", end.Offset)
	times, err := admin.ListOffsetsAfterMilli(ctx, began.UnixMilli()+3500, topic)
	check(err)
	at, _ := times.Lookup(topic, 0)
	say("at a time", fmt.Sprint(at.Offset, " ", at.Timestamp))
	lags, err := admin.Lag(ctx, "go")
	check(err)
	say("lag", fmt.Sprint(lags["go"].State, " ", lags["go"].Lag.Total()))
	deleted, err := admin.DeleteRecords(ctx, kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: 12}}})
	check(err)
	say("begins", deleted[topic][0].LowWatermark)
	grown, err := admin.UpdatePartitions(ctx, 3, topic)
	check(err)
	say("grown", grown[topic].Err == nil)
	described, err := admin.DescribeTopicConfigs(ctx, topic)
	check(err)
	for _, config := range described[0].Configs {
		if config.Key == "retention.ms" {
			say("settings", *config.Value)
		}
	}
	_, err = admin.DeleteGroups(ctx, "go")
	check(err)
	_, err = admin.DeleteTopics(ctx, topic)
	check(err)
	for {
		topics, err := admin.ListTopics(ctx)
		check(err)
		if !topics.Has(topic) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	say("deleted", true)
}
