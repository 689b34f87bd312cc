// What a program with @confluentinc/kafka-javascript, which is librdkafka, does with topics, records, groups and
// transactions. Each line that it prints is the same on every broker.
"use strict";

const { CompressionTypes, Kafka, logLevel } = require("@confluentinc/kafka-javascript").KafkaJS;

const TOPIC = "in-confluent";
const BEGAN = 1700000000000;

const kafka = new Kafka({ kafkaJS: { clientId: "program", brokers: [process.argv[2]], logLevel: logLevel.ERROR } });

function say(name, what) {
  console.log(`${name}: ${typeof what === "string" ? what : JSON.stringify(what)}`);
}

function messages() {
  return Array.from({ length: 10 }, (_, number) => ({
    partition: 0,
    key: `key ${number}`,
    value: "value ".repeat(20),
    timestamp: String(BEGAN + number * 1000),
    headers: { number: String(number) },
  }));
}

async function produce(name, options) {
  const producer = kafka.producer({ kafkaJS: options });
  await producer.connect();
  const told = await producer.send({ topic: TOPIC, messages: messages() });
  say(name, told.map(({ partition, baseOffset }) => [partition, baseOffset]));
  await producer.disconnect();
}

async function inTransactions() {
  const producer = kafka.producer({ kafkaJS: { transactionalId: `confluent-${process.pid}` } });
  await producer.connect();
  for (const end of ["abort", "commit"]) {
    const transaction = await producer.transaction();
    await transaction.send({ topic: TOPIC, messages: messages() });
    await transaction[end]();
  }
  say("transactions", true);
  await producer.disconnect();
}

async function consume(groupId, count) {
  const consumer = kafka.consumer({
    kafkaJS: { groupId, fromBeginning: true, autoCommit: false, readUncommitted: false },
    "heartbeat.interval.ms": 300,
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [TOPIC] });
  const found = [];
  await new Promise((resolve, reject) => {
    const eachMessage = async ({ message }) => {
      found.push(message);
      if (found.length === count) {
        resolve();
      }
    };
    consumer.run({ eachMessage }).catch(reject);
  });
  await consumer.commitOffsets([{ topic: TOPIC, partition: 0, offset: "15" }]);
  await consumer.disconnect();
  return found;
}

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  const configEntries = [{ name: "retention.ms", value: "-1" }];
  const topic = { topic: TOPIC, numPartitions: 2, replicationFactor: 1, configEntries };
  say("created", await admin.createTopics({ topics: [topic] }));
  say("again", await admin.createTopics({ topics: [topic] }));
  await produce("none", { acks: -1, idempotent: true });
  await produce("gzip", { acks: -1, compression: CompressionTypes.GZIP });
  await produce("one acknowledges", { acks: 1, compression: CompressionTypes.LZ4 });
  await inTransactions();
  const found = await consume("confluent", 40);
  say("read", `${found.length}, the last ${found[39].offset} ${found[39].key} ${found[39].headers.number}`);
  say("goes on", (await consume("confluent", 1))[0].offset);
  say("offsets", (await admin.fetchOffsets({ groupId: "confluent", topics: [TOPIC] }))[0].partitions[0].offset);
  say("ends", (await admin.fetchTopicOffsets(TOPIC)).map(({ partition, low, high }) => [partition, low, high]).sort());
  const times = await admin.fetchTopicOffsetsByTimestamp(TOPIC, BEGAN + 3500);
  say("at a time", times.find((each) => !each.partition));
  const { groups } = await admin.describeGroups(["confluent"]);
  say("group", groups.map(({ groupId, state, protocolType }) => [groupId, state, protocolType]));
  const deleted = await admin.deleteTopicRecords({ topic: TOPIC, partitions: [{ partition: 0, offset: "12" }] });
  say("deleted", deleted.map(({ partition, lowWatermark }) => [partition, lowWatermark]));
  say("partitions", (await admin.fetchTopicMetadata({ topics: [TOPIC] }))[0].partitions.length);
  say("group deleted", (await admin.deleteGroups(["confluent"])).map(({ errorCode }) => errorCode ?? 0));
  await admin.deleteTopics({ topics: [TOPIC] });
  say("topics", (await admin.listTopics()).filter((name) => name === TOPIC));
  await admin.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
