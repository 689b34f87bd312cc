// What a program with @platformatic/kafka does with topics, records, groups and transactions. Each line that it prints is
// the same on every broker.
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.NODE_PATH, "program.js"));
const { Admin, Consumer, Producer, stringDeserializers, stringSerializers } = require("@platformatic/kafka");

const TOPIC = "in-platformatic";
const BEGAN = 1700000000000n;
const SERVERS = { clientId: "program", bootstrapBrokers: [process.argv[2]], retries: 20, retryDelay: 100 };

function say(name, what) {
  const written = (_, value) => (typeof value === "bigint" ? Number(value) : value);
  console.log(`${name}: ${typeof what === "string" ? what : JSON.stringify(what, written)}`);
}

function messages() {
  return Array.from({ length: 10 }, (_, number) => ({
    topic: TOPIC,
    partition: 0,
    key: `key ${number}`,
    value: "value ".repeat(20),
    timestamp: BEGAN + BigInt(number) * 1000n,
    headers: { number: String(number) },
  }));
}

async function produce(name, options) {
  const producer = new Producer({ ...SERVERS, serializers: stringSerializers, ...options });
  const { offsets } = await producer.send({ messages: messages(), acks: -1 });
  say(name, offsets.map(({ partition, offset }) => [partition, offset]));
  await producer.close();
}

async function lastOffset(admin, isolationLevel) {
  const last = { name: TOPIC, partitions: [{ partitionIndex: 0, timestamp: -1n }] };
  const [listed] = await admin.listOffsets({ topics: [last], isolationLevel });
  return listed.partitions[0].offset;
}

async function transactions(admin) {
  const producer = new Producer({
    ...SERVERS,
    serializers: stringSerializers,
    transactionalId: `platformatic-${process.pid}`,
    idempotent: true,
  });
  for (const end of ["abort", "commit"]) {
    const transaction = await producer.beginTransaction();
    await transaction.send({ messages: messages() });
    await transaction[end]();
    // Markers may come after the answer.
    let stable;
    do {
      stable = await lastOffset(admin, 1);
    } while (stable < (await lastOffset(admin, 0)));
    say(end, stable);
  }
  await producer.close();
}

async function consume(groupId, count) {
  const consumer = new Consumer({
    ...SERVERS,
    groupId,
    deserializers: stringDeserializers,
    maxWaitTime: 200,
  });
  const stream = await consumer.consume({
    topics: [TOPIC],
    mode: "committed",
    fallbackMode: "earliest",
    autocommit: false,
  });
  const found = [];
  for await (const message of stream) {
    found.push(message);
    if (found.length === count) {
      await message.commit();
      break;
    }
  }
  await consumer.close(true);
  return found;
}

async function administer(admin) {
  const described = (await admin.describeGroups({ groups: ["platformatic"] })).get("platformatic");
  say("group", [described.id, described.state, described.protocolType, described.members.size]);
  const [offsets] = await admin.listConsumerGroupOffsets({ groups: ["platformatic"] });
  say("offsets", offsets.topics.map(({ name, partitions }) => [name, partitions[0].committedOffset]));
  const at = { name: TOPIC, partitions: [{ partitionIndex: 0, timestamp: BEGAN + 3500n }] };
  const [listed] = await admin.listOffsets({ topics: [at] });
  say("at a time", [listed.partitions[0].offset, listed.partitions[0].timestamp]);
  const three = [{ partition: 0, offset: 3n }];
  await admin.alterConsumerGroupOffsets({ groupId: "platformatic", topics: [{ name: TOPIC, partitionOffsets: three }] });
  const [set] = await admin.listConsumerGroupOffsets({ groups: ["platformatic"] });
  say("set", set.topics[0].partitions[0].committedOffset);
  const twelve = { name: TOPIC, partitions: [{ partition: 0, offset: 12n }] };
  const [deleted] = await admin.deleteRecords({ topics: [twelve] });
  say("begins", deleted.partitions[0].lowWatermark);
  const resource = { resourceType: 2, resourceName: TOPIC };
  const change = { name: "cleanup.policy", configOperation: 2, value: "compact" };
  await admin.incrementalAlterConfigs({ resources: [{ ...resource, configs: [change] }] });
  const names = ["cleanup.policy", "retention.ms"];
  const [{ configs }] = await admin.describeConfigs({ resources: [{ ...resource, configurationKeys: names }] });
  say("settings", configs.map(({ name, value }) => [name, value]).sort());
  await admin.createPartitions({ topics: [{ name: TOPIC, count: 3, assignments: null }] });
  const metadata = await admin.metadata({ topics: [TOPIC], forceUpdate: true });
  say("partitions", metadata.topics.get(TOPIC).partitions.length);
  await admin.deleteGroups({ groups: ["platformatic"] });
  say("groups", [...(await admin.listGroups()).keys()].filter((name) => name === "platformatic"));
}

async function main() {
  const admin = new Admin(SERVERS);
  const configs = [{ name: "retention.ms", value: "-1" }];
  const [made] = await admin.createTopics({ topics: [TOPIC], partitions: 2, replicas: 1, configs });
  say("created", [made.name, made.partitions, made.replicas]);
  const again = await admin.createTopics({ topics: [TOPIC], partitions: 2, replicas: 1 }).catch((error) => error);
  say("again", JSON.stringify(again.errors?.map((each) => each.errors?.map(({ apiId }) => apiId) ?? each.apiId)));
  await produce("none", { idempotent: true });
  await produce("gzip", { idempotent: true, compression: "gzip" });
  await transactions(admin);
  const found = await consume("platformatic", 30);
  say("read", `${found.length}, the last ${found[29].offset} ${found[29].key} ${found[29].headers.get("number")}`);
  await administer(admin);
  await admin.deleteTopics({ topics: [TOPIC] });
  await admin.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
