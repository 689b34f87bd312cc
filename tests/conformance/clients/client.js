// A client in JavaScript alone (node-zookeeper-client, which speaks the protocol by itself), doing what applications do.
//
//     client.js HOSTS
//
// Everything is below a root of its own, by the connection string's chroot. Each line says what was seen, and nothing
// that differs between two runs; `please …` asks who runs this for what a client cannot do
// (tests/rigs/client_programs.py). What should not happen ends it with exit code 1 and a reason.

"use strict";

const assert = require("node:assert");
const { once } = require("node:events");
const readline = require("node:readline/promises");

const zookeeper = require("node-zookeeper-client");

const { ACL, CreateMode, Exception, Id, Permission, State } = zookeeper;

const ROOT = "/js-client";
const TIMEOUT_MS = 20000;
const PATIENCE_MS = 60000;
const IN_FLIGHT = 500;
const LARGE = 1000000;
const OPTIONS = { sessionTimeout: TIMEOUT_MS, spinDelay: 20 };

const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

function say(line) {
  console.log(line);
}

async function ask(what) {
  say(`please ${what}`);
  assert.strictEqual((await answers.next()).value, "done");
}

// What a method with a callback answers: all that it answers, when it is more than one thing.
function of(client, method, ...words) {
  return new Promise((resolve, reject) => {
    client[method](...words, (error, ...values) => (error ? reject(error) : resolve(values.length > 1 ? values : values[0])));
  });
}

// The name of the error that a call has to end with.
async function refused(client, method, ...words) {
  try {
    await of(client, method, ...words);
  } catch (error) {
    return error.getName ? error.getName() : String(error);
  }
  return "not refused";
}

// While members elect, requests are lost with their connections: those that can be repeated are.
async function insisting(client, method, ...words) {
  for (;;) {
    try {
      return await of(client, method, ...words);
    } catch (error) {
      if (error.getCode?.() !== Exception.CONNECTION_LOSS) throw error;
      if (client.getState() !== State.SYNC_CONNECTED) await once(client, "connected");
    }
  }
}

async function joined(hosts, more = {}) {
  const client = zookeeper.createClient(hosts, { ...OPTIONS, ...more });
  client.connect();
  await once(client, "connected");
  return client;
}

async function leave(client) {
  client.close();
  await once(client, "disconnected");
}

// Events, which can be waited for in their order.
class Seen {
  #events = [];
  #waiting = [];

  watcher = (event) => {
    const line = `${event.getName()} ${event.getPath()}`;
    const next = this.#waiting.shift();
    if (next) next(line);
    else this.#events.push(line);
  };

  get left() {
    return this.#events.length;
  }

  next() {
    return this.#events.length ? this.#events.shift() : new Promise((resolve) => this.#waiting.push(resolve));
  }
}

// This client has no sync: it waits by a watch until the member that it is at has the znode.
async function comes(client, path) {
  const seen = new Seen();
  const stat = await of(client, "exists", path, seen.watcher);
  if (stat) return stat;
  await seen.next();
  return of(client, "exists", path);
}

async function znodes(one) {
  say(`create: ${await of(one, "create", "/a", Buffer.from("one"))}`);
  const [data, stat] = await of(one, "getData", "/a");
  say(`getData: ${data} version ${stat.version} length ${stat.dataLength}`);
  assert.deepStrictEqual(stat.czxid, stat.mzxid);
  const changed = await of(one, "setData", "/a", Buffer.from("three"), -1);
  say(`setData: version ${changed.version} length ${changed.dataLength}`);
  assert.deepStrictEqual(await of(one, "exists", "/a"), changed);
  say(`exists: ${await of(one, "exists", "/none")}`);
  await of(one, "create", "/a/b");
  say(`create again: ${await refused(one, "create", "/a")}`);
  say(`create below nothing: ${await refused(one, "create", "/x/y")}`);
  say(`setData with a version that is not: ${await refused(one, "setData", "/a", Buffer.from("x"), 7)}`);
  say(`remove with children: ${await refused(one, "remove", "/a")}`);
  say(`remove with a version that is not: ${await refused(one, "remove", "/a/b", 7)}`);
  await of(one, "remove", "/a/b");
  await of(one, "remove", "/a", 1);
  say(`remove: ${await refused(one, "remove", "/a")}`);
  await of(one, "mkdirp", "/deep/er/est");
  say(`mkdirp: ${(await of(one, "getChildren", "/deep/er"))[0]}`);
}

async function childrenAndSequences(one) {
  await of(one, "create", "/q");
  for (const name of ["b", "ü"]) await of(one, "create", `/q/${name}`);
  for (const mode of [CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.EPHEMERAL_SEQUENTIAL]) {
    say(`sequence: ${await of(one, "create", "/q/n-", null, mode)}`);
  }
  const [names, stat] = await of(one, "getChildren", "/q");
  say(`children: ${names.sort().join(" ")} (${stat.numChildren}, cversion ${stat.cversion})`);
  say(`below an ephemeral: ${await refused(one, "create", "/q/n-0000000003/child")}`);
}

async function largeValues(one) {
  const sent = Buffer.alloc(LARGE, "0123456789abcdefghijklmnopqrstuvwxyz");
  await of(one, "create", "/large");
  await of(one, "setData", "/large", sent);
  const [got] = await of(one, "getData", "/large");
  say(`a large value: ${got.equals(sent) ? "the same" : "another"}`);
}

async function manyInFlight(one) {
  await of(one, "create", "/many");
  const changes = Array.from({ length: IN_FLIGHT }, (_, each) => of(one, "setData", "/many", Buffer.from(String(each))));
  const versions = (await Promise.all(changes)).map((stat) => stat.version);
  say(`in flight: ${versions.length}, in their order: ${versions.every((version, each) => version === each + 1)}`);
}

async function transactions(one) {
  await of(one, "create", "/t");
  const all = one.transaction();
  all.create("/t/s-", Buffer.from("1"), CreateMode.PERSISTENT_SEQUENTIAL).setData("/t", Buffer.from("set"));
  const results = await of(all.check("/t", 1).remove("/many"), "commit");
  say(`transaction: ${results[0].path} version ${results[1].stat.version}, /many: ${await of(one, "exists", "/many")}`);
  const none = one.transaction().setData("/t", Buffer.from("lost")).check("/t", 7);
  say(`transaction refused: ${await refused(none, "commit")}, /t is ${(await of(one, "getData", "/t"))[0]}`);
}

async function watches(one, two) {
  const [data, exists, children] = [new Seen(), new Seen(), new Seen()];
  await of(one, "create", "/w", Buffer.from("1"));
  await comes(two, "/w");
  await of(two, "getData", "/w", data.watcher);
  await of(two, "getChildren", "/w", children.watcher);
  await of(two, "exists", "/w/new", exists.watcher);
  await of(one, "setData", "/w", Buffer.from("2"));
  say(`event: ${await data.next()}`);
  await of(one, "create", "/w/new");
  say(`event: ${await exists.next()}`);
  say(`event: ${await children.next()}`);
  await of(two, "exists", "/w/new", exists.watcher);
  await of(one, "setData", "/w", Buffer.from("3"));
  await of(one, "remove", "/w/new");
  say(`event: ${await exists.next()}`);
  say(`events that are left: ${data.left + exists.left + children.left}`);
}

async function ephemerals(one, hosts) {
  const gone = new Seen();
  const owner = await joined(hosts);
  await of(owner, "create", "/e", null, CreateMode.EPHEMERAL);
  const stat = await comes(one, "/e");
  say(`its owner is ${stat.ephemeralOwner.equals(owner.getSessionId()) ? "its session" : "another"}`);
  await of(one, "exists", "/e", gone.watcher);
  await leave(owner);
  say(`event: ${await gone.next()}`);
}

async function permissions(one, hosts) {
  one.addAuthInfo("digest", Buffer.from("bob:secret"));
  await of(one, "create", "/bob", Buffer.from("b"), ACL.CREATOR_ALL_ACL);
  const [acls] = await of(one, "getACL", "/bob");
  say(`acl: ${acls.map(({ id, permission }) => `${id.scheme} ${id.id} ${permission}`)}`);
  await of(one, "create", "/after-bob");
  const bob = await joined(hosts);
  await comes(bob, "/after-bob");
  say(`exists as nobody: ${await refused(bob, "exists", "/bob")}`);
  say(`getData as nobody: ${await refused(bob, "getData", "/bob")}`);
  bob.addAuthInfo("digest", Buffer.from("bob:secret"));
  say(`getData as bob: ${(await of(bob, "getData", "/bob"))[0]}`);
  const reading = [new ACL(Permission.READ, new Id("world", "anyone"))];
  say(`setACL: aversion ${(await of(bob, "setACL", "/bob", reading)).aversion}`);
  say(`setData of what is for reading: ${await refused(bob, "setData", "/bob", Buffer.from("x"))}`);
  await leave(bob);
}

// The member that leads is killed: the session goes on elsewhere, with its ephemerals and watches.
async function anotherLeader(one, two) {
  const seen = new Seen();
  const session = two.getSessionId();
  await of(two, "create", "/mine", null, CreateMode.EPHEMERAL);
  await of(two, "create", "/watched", Buffer.from("1"));
  await of(two, "getData", "/watched", seen.watcher);
  await ask("kill leader");
  await insisting(one, "setData", "/watched", Buffer.from("2"));
  say(`event: ${await seen.next()}`);
  say(`the session is ${two.getSessionId().equals(session) ? "the same" : "another"}`);
  const stat = await insisting(two, "exists", "/mine");
  say(`its ephemeral is ${stat.ephemeralOwner.equals(session) ? "there" : "gone"}`);
  await ask("start");
}

// Whoever knows a session may take it over, and close it: its first client learns that it is over.
async function theEndOfASession(one, members) {
  const gone = new Seen();
  const victim = await joined(members[0] + ROOT);
  await of(victim, "create", "/v", null, CreateMode.EPHEMERAL);
  await insisting(one, "getChildren", "/");
  await comes(one, "/v");
  await of(one, "exists", "/v", gone.watcher);
  const taken = { sessionId: victim.getSessionId(), sessionPassword: victim.getSessionPassword() };
  let state = null;
  // It comes back at once, and may be faster than the close: then once more.
  while (state !== State.EXPIRED) {
    const told = Promise.race([once(victim, "expired"), once(victim, "connected")]);
    const thief = zookeeper.createClient(members[1] + ROOT, { ...OPTIONS, ...taken });
    thief.connect();
    await Promise.race([once(thief, "connected"), once(thief, "expired")]);
    thief.close();
    await told;
    state = victim.getState();
  }
  say(`event: ${await gone.next()}`);
  say("the session has expired");
}

async function main() {
  const [hosts] = process.argv.slice(2);
  const whole = await joined(hosts);
  await of(whole, "create", ROOT);
  await leave(whole);
  const members = hosts.split(",");
  const one = await joined(members[0] + "," + hosts + ROOT);
  await comes(one, "/");
  const two = await joined(hosts + ROOT);
  await comes(two, "/");
  await znodes(one);
  await childrenAndSequences(one);
  await largeValues(one);
  await manyInFlight(one);
  await transactions(one);
  await watches(one, two);
  await ephemerals(one, hosts + ROOT);
  await permissions(one, hosts + ROOT);
  await anotherLeader(one, two);
  await theEndOfASession(one, members);
  await leave(two);
  await leave(one);
  say("the end");
  process.exit(0);
}

setTimeout(() => {
  console.error("it takes too long");
  process.exit(1);
}, PATIENCE_MS).unref();
main().catch((error) => {
  console.error(error);
  process.exit(1);
});
