// What a program with kafkajs does with topics, records and groups. Each line that it prints is the same on every broker.
"use strict";

const { CompressionTypes, Kafka, logLevel } = require("kafkajs");

const TOPIC = "in-javascript";
const BEGAN = 1700000000000;
const FOR_EVER = { name: "retention.ms", value: "-1" };

const kafka = new Kafka({ clientId: "program", brokers: [process.argv[2]], logLevel: logLevel.ERROR });

function say(name, what) {
  console.log(`${name}: ${typeof what === "string" ? what : JSON.stringify(what)}`);
}

async function produce(producer, compression, acks) {
  const messages = [];
  for (let number = 0; number < 10; number++) {
    messages.push({
      partition: 0,
      key: `key ${number}`,
      value: "value ".repeat(20),
      timestamp: String(BEGAN + number * 1000),
      headers: { number: String(number) },
    });
  }
  const [told] = await producer.send({ topic: TOPIC, acks, compression, messages });
  return told.baseOffset;
}

async function consume(options, count) {
  const consumer = kafka.consumer({ heartbeatInterval: 300, ...options });
  await consumer.connect();
  await consumer.subscribe({ topics: [TOPIC], fromBeginning: true });
  const found = [];
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error));
    consumer
      .run({
        autoCommit: false,
        eachMessage: async ({ partition, message }) => {
          found.push({ partition, offset: message.offset, key: String(message.key), headers: message.headers });
          if (found.length === count) {
            resolve();
          }
        },
      })
      .catch(reject);
  });
  await consumer.commitOffsets([{ topic: TOPIC, partition: 0, offset: "15" }]);
  await consumer.disconnect();
  return found;
}

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  const topic = { topic: TOPIC, numPartitions: 2, replicationFactor: 1, configEntries: [FOR_EVER] };
  say("created", await admin.createTopics({ topics: [topic], waitForLeaders: true }));
  say("again", await admin.createTopics({ topics: [topic] }));
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  say("none", await produce(producer, CompressionTypes.None, -1));
  say("gzip", await produce(producer, CompressionTypes.GZIP, -1));
  await producer.disconnect();
  const plain = kafka.producer();
  await plain.connect();
  say("one acknowledges", await produce(plain, CompressionTypes.None, 1));
  await plain.disconnect();
  const found = await consume({ groupId: "javascript" }, 30);
  say("read", `${found.length}, the last ${found[29].offset} ${found[29].key} ${found[29].headers.number}`);
  say("goes on", (await consume({ groupId: "javascript" }, 1))[0].offset);
  say("offsets", (await admin.fetchOffsets({ groupId: "javascript", topics: [TOPIC] }))[0].partitions[0].offset);
  say("ends", (await admin.fetchTopicOffsets(TOPIC)).map(({ partition, low, high }) => [partition, low, high]).sort());
  say("at a time", (await admin.fetchTopicOffsetsByTimestamp(TOPIC, BEGAN + 3500)).find((each) => !each.partition));
  const described = await admin.describeGroups(["javascript"]);
  say("group", described.groups.map(({ groupId, state, protocolType }) => [groupId, state, protocolType]));
  await admin.setOffsets({ groupId: "javascript", topic: TOPIC, partitions: [{ partition: 0, offset: "3" }] });
  say("set", (await admin.fetchOffsets({ groupId: "javascript", topics: [TOPIC] }))[0].partitions[0].offset);
  await admin.deleteTopicRecords({ topic: TOPIC, partitions: [{ partition: 0, offset: "12" }] });
  say("deleted", (await admin.fetchTopicOffsets(TOPIC)).find((each) => !each.partition).low);
  const configs = await admin.describeConfigs({
    resources: [{ type: 2, name: TOPIC, configNames: ["cleanup.policy"] }],
    includeSynonyms: false,
  });
  say("settings", configs.resources[0].configEntries.map(({ configName, configValue }) => [configName, configValue]));
  await admin.createPartitions({ topicPartitions: [{ topic: TOPIC, count: 3 }] });
  say("partitions", (await admin.fetchTopicMetadata({ topics: [TOPIC] })).topics[0].partitions.length);
  say("group deleted", (await admin.deleteGroups(["javascript"])).map(({ errorCode }) => errorCode ?? 0));
  await admin.deleteTopics({ topics: [TOPIC] });
  say("topics", (await admin.listTopics()).filter((name) => name === TOPIC));
  await admin.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
