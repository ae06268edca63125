// Scenarios of amqplib, the Node client: `node scenarios.mjs URL NAME SCENARIO` runs one of them.
// It ends with status 0 if all assertions hold. NAME is unused by anybody else on the broker.

import assert from 'node:assert/strict';
import {once} from 'node:events';
import {setTimeout as sleep} from 'node:timers/promises';
import amqp from 'amqplib';

const [url, name, wanted] = process.argv.slice(2);
const scenarios = new Map();
const scenario = (title, body) => scenarios.set(title, body);

// Drain a queue by basic.get.
async function bodies(channel, queue) {
  const found = [];
  for (let message; (message = await channel.get(queue, {noAck: true})); ) {
    found.push(message.content.toString());
  }
  return found;
}

// Consume until `count` messages have come.
async function collect(channel, queue, count, options = {}) {
  const seen = [];
  await new Promise((resolve) => {
    channel.consume(queue, (message) => seen.push(message) === count && resolve(), options);
  });
  return seen;
}

async function temporary(channel, options = {}) {
  return (await channel.assertQueue('', {exclusive: true, ...options})).queue;
}

// The error that the broker closes a channel with, while `act` runs on it.
async function channelError(connection, act) {
  const channel = await connection.createChannel();
  const closed = once(channel, 'error');
  await Promise.allSettled([act(channel)]);
  return (await closed)[0];
}

scenario('channels open and close', async (connection) => {
  const [first, second] = [await connection.createChannel(), await connection.createChannel()];
  await first.close();
  await temporary(second);
  assert.throws(() => first.publish('', 'key', Buffer.from('x')), /closed/);
});

scenario('every exchange type is declared, checked and deleted', async (connection) => {
  const channel = await connection.createChannel();
  for (const type of ['direct', 'fanout', 'topic', 'headers']) {
    assert.equal((await channel.assertExchange(name, type, {durable: true})).exchange, name);
    await channel.assertExchange(name, type, {durable: true});
    await channel.checkExchange(name);
    await channel.deleteExchange(name);
  }
});

scenario('consumed messages are acknowledged in order', async (connection) => {
  const channel = await connection.createChannel();
  const queue = await temporary(channel);
  for (let number = 0; number < 50; number++) channel.sendToQueue(queue, Buffer.from(`${number}`));
  const seen = await collect(channel, queue, 50);
  assert.deepEqual(seen.map((message) => +message.content), [...Array(50).keys()]);
  assert.deepEqual(seen.map((message) => message.fields.deliveryTag), [...Array(50).keys()].map((n) => n + 1));
  seen.forEach((message) => channel.ack(message));
  await channel.close();
  assert.equal((await (await connection.createChannel()).checkQueue(queue)).messageCount, 0);
});

scenario('nacked and rejected messages return or go', async (connection) => {
  const channel = await connection.createChannel();
  const queue = await temporary(channel);
  channel.sendToQueue(queue, Buffer.from('x'));
  const first = await channel.get(queue);
  assert.equal(first.fields.redelivered, false);
  channel.nack(first, false, true);
  const second = await channel.get(queue);
  assert.equal(second.fields.redelivered, true);
  channel.reject(second, true);
  const third = await channel.get(queue);
  channel.nackAll(true);
  channel.nack(await channel.get(queue), false, false);
  assert.ok(third);
  assert.equal(await channel.get(queue), false);
});

scenario('confirms arrive for every publish', async (connection) => {
  const channel = await connection.createConfirmChannel();
  const queue = await temporary(channel);
  const confirmed = [];
  for (let number = 0; number < 100; number++) {
    channel.sendToQueue(queue, Buffer.from(`${number}`), {persistent: true}, (error) => confirmed.push(error));
  }
  await channel.waitForConfirms();
  assert.deepEqual(confirmed, Array(100).fill(null));
  assert.equal((await bodies(channel, queue)).length, 100);
});

scenario('a full queue that rejects publishes nacks', async (connection) => {
  const channel = await connection.createConfirmChannel();
  const queue = await temporary(channel, {maxLength: 1, arguments: {'x-overflow': 'reject-publish'}});
  channel.sendToQueue(queue, Buffer.from('fits'));
  await channel.waitForConfirms();
  channel.sendToQueue(queue, Buffer.from('too many'));
  await assert.rejects(channel.waitForConfirms(), /nacked/);
  assert.deepEqual(await bodies(channel, queue), ['fits']);
});

scenario('a mandatory message to nowhere is returned before its confirm', async (connection) => {
  const channel = await connection.createConfirmChannel();
  const events = [];
  channel.on('return', (message) => events.push([message.fields.replyCode, message.content.toString()]));
  channel.publish('', name, Buffer.from('back'), {mandatory: true}, () => events.push('confirmed'));
  await channel.waitForConfirms();
  assert.deepEqual(events, [[312, 'back'], 'confirmed']);
});

scenario('properties and headers survive', async (connection) => {
  const channel = await connection.createChannel();
  const queue = await temporary(channel);
  const headers = {text: 'é', number: -5, big: 2 ** 40, half: 0.5, yes: true, list: [1, 'two'], nested: {deep: {}}, no: null};
  const sent = {headers, contentType: 'text/plain', priority: 4, correlationId: 'c', replyTo: 'r', messageId: 'm', type: 't', appId: 'a'};
  channel.sendToQueue(queue, Buffer.from('x'), {...sent, persistent: true, timestamp: 1700000000, userId: 'guest'});
  const {properties} = await channel.get(queue, {noAck: true});
  for (const key of Object.keys(sent)) assert.deepEqual(properties[key], sent[key], key);
  assert.equal(properties.deliveryMode, 2);
  assert.equal(properties.timestamp, 1700000000);
  assert.equal(properties.userId, 'guest');
});

scenario('prefetch bounds what is in flight', async (connection) => {
  const channel = await connection.createChannel();
  const queue = await temporary(channel);
  for (let number = 0; number < 6; number++) channel.sendToQueue(queue, Buffer.from(`${number}`));
  await channel.prefetch(2);
  const seen = [];
  let more;
  channel.consume(queue, (message) => (seen.push(message), more?.()));
  const reach = (count) => new Promise((resolve) => (more = () => seen.length >= count && resolve())() );
  await reach(2);
  while ((await channel.checkQueue(queue)).messageCount !== 4);
  assert.equal(seen.length, 2);
  channel.ack(seen[1], true);
  await reach(4);
  assert.deepEqual(seen.map((message) => +message.content), [0, 1, 2, 3]);
});

scenario('a deleted queue cancels its consumer', async (connection) => {
  const [consuming, deleting] = [await connection.createChannel(), await connection.createChannel()];
  const queue = await temporary(consuming);
  let cancelled;
  const told = new Promise((resolve) => (cancelled = resolve));
  await consuming.consume(queue, cancelled);
  await deleting.deleteQueue(queue);
  assert.equal(await told, null);
  await temporary(consuming);
});

scenario('exchanges bind to exchanges', async (connection) => {
  const channel = await connection.createChannel();
  const [source, target, queue] = [`${name}.source`, `${name}.target`, await temporary(channel)];
  await channel.assertExchange(source, 'topic', {durable: false, autoDelete: true});
  await channel.assertExchange(target, 'headers', {durable: false, autoDelete: true});
  await channel.bindExchange(target, source, 'kept.*');
  await channel.bindQueue(queue, target, '', {'x-match': 'any', colour: 'red'});
  for (const [key, colour] of [['kept.one', 'red'], ['kept.two', 'blue'], ['lost.one', 'red']]) {
    channel.publish(source, key, Buffer.from(key), {headers: {colour}});
  }
  assert.deepEqual(await bodies(channel, queue), ['kept.one']);
  await channel.unbindExchange(target, source, 'kept.*');
  const gone = await channelError(connection, (other) => other.checkExchange(source));
  assert.equal(gone.code, 404);
});

scenario('a body of ten mebibytes survives', async (connection) => {
  const channel = await connection.createConfirmChannel();
  const queue = await temporary(channel);
  const body = Buffer.alloc(10 * 1024 * 1024);
  for (let at = 0; at < body.length; at += 4) body.writeUInt32BE(at, at);
  channel.sendToQueue(queue, body);
  await channel.waitForConfirms();
  assert.ok((await channel.get(queue, {noAck: true})).content.equals(body));
});

scenario('an idle connection lives by heartbeats', async () => {
  const connection = await amqp.connect(`${url}?heartbeat=1`);
  assert.equal(connection.connection.heartbeat, 1);
  await sleep(3500);
  await temporary(await connection.createChannel());
  await connection.close();
});

scenario('a new secret is accepted', async (connection) => {
  await connection.updateSecret(Buffer.from('guest'), 'renewed');
  await temporary(await connection.createChannel());
});

scenario('blocked listeners register and stay silent', async (connection) => {
  const calls = [];
  connection.on('blocked', (reason) => calls.push(reason));
  connection.on('unblocked', () => calls.push('unblocked'));
  const channel = await connection.createConfirmChannel();
  const queue = await temporary(channel);
  channel.sendToQueue(queue, Buffer.from('flows'));
  await channel.waitForConfirms();
  assert.deepEqual(calls, []);
});

scenario('channel errors leave the connection open', async (connection) => {
  const codes = [];
  for (const act of [
    (channel) => channel.checkQueue(name),
    (channel) => channel.checkExchange(name),
    (channel) => channel.assertQueue(`amq.${name}`),
    (channel) => channel.ack({fields: {deliveryTag: 9}}),
    (channel) => channel.publish(name, 'key', Buffer.from('lost')),
  ]) {
    codes.push((await channelError(connection, act)).code);
  }
  assert.deepEqual(codes, [404, 404, 403, 406, 404]);
  await temporary(await connection.createChannel());
});

scenario('an unknown exchange type closes the connection', async (connection) => {
  const channel = await connection.createChannel();
  channel.on('error', () => {});
  const closed = once(connection, 'error');
  await assert.rejects(channel.assertExchange(name, 'no-such-type'));
  assert.equal((await closed)[0].code, 503);
});

scenario('a wrong password or virtual host is refused', async () => {
  await assert.rejects(amqp.connect(url.replace('guest:guest', 'guest:wrong')), /ACCESS[-_]REFUSED/);
  await assert.rejects(amqp.connect(url + name), /ConnectionClose/);
});

const connection = await amqp.connect(url);
connection.on('error', () => {});
await scenarios.get(wanted)(connection);
await connection.close().catch(() => {});
