// A worker of the bench that locks by node-redlock. It does what worker.go does, and says it in JSON:
//
//   parent: assignment   worker: report (it is connected and warm)
//   parent: begin        worker: report (what it did)
//
// Times are nanoseconds of process.hrtime, which on Linux is the clock that all processes share. They are BigInts: a
// number would be exact for the first hundred days after the machine was started.

import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";
import Redlock4 from "redlock4";
import Redlock5 from "redlock5";

const now = process.hrtime.bigint;
const milliseconds = (nanoseconds) => Number(nanoseconds) / 1e6;

// Who waits looks often, so that both sides have their turns. To extend and to give back is tried once: a lock that was
// lost must be seen.
const untilServed = { retryCount: -1, retryDelay: 2 };
const once = { retryCount: 0, retryJitter: 1 };

// What the two versions call their methods.
const libraries = {
  "node-redlock-4": (client) => {
    const redlock = new Redlock4([client], once);
    return {
      acquire: (key, ttl) => redlock.lockWithOptions(key, ttl, untilServed),
      extend: (lock, ttl) => lock.extend(ttl),
      release: (lock) => lock.unlock(),
    };
  },
  "node-redlock-5": (client) => {
    const redlock = new Redlock5([client], once);
    return {
      acquire: (key, ttl) => redlock.acquire([key], ttl, untilServed),
      extend: (lock, ttl) => lock.extend(ttl),
      release: (lock) => lock.release(),
    };
  },
};

// turns locks and unlocks until stop, and tells what came of it.
async function turns(library, { Process, Workload: w }, goroutine, stop) {
  const ttl = milliseconds(w.TTL);
  const name = (Process * w.Goroutines + goroutine) % w.Names;
  const tally = { Process, Name: name, Holds: [], Unserved: 0n, Errors: 0, FirstError: "" };
  for (;;) {
    const hold = { Asked: now() };
    if (hold.Asked >= stop) {
      return tally;
    }
    try {
      let lock = await library.acquire(`bench-${name}`, ttl);
      hold.Begin = now();
      lock = await library.extend(lock, ttl);
      await sleep(milliseconds(w.Work));
      hold.End = now();
      await library.release(lock);
      hold.Released = now();
    } catch (error) {
      tally.Errors++;
      tally.FirstError ||= String(error);
      continue;
    }
    if (hold.Begin >= stop) {
      tally.Unserved = stop - hold.Asked;
      return tally;
    }
    tally.Holds.push(hold);
    await sleep(milliseconds(w.Pause));
  }
}

// json writes BigInts as numbers, which JSON.stringify refuses to do.
function json(value) {
  if (Array.isArray(value)) {
    return `[${value.map(json).join(",")}]`;
  }
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([key, v]) => `"${key}":${json(v)}`).join(",")}}`;
  }
  return typeof value === "bigint" ? String(value) : JSON.stringify(value);
}

const say = (report, then) => process.stdout.write(json(report) + "\n", then);

const orders = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const assignment = JSON.parse((await orders.next()).value);
const { Contestant, Where, Process, Workload } = assignment;
const library = libraries[Contestant](new Redis(`redis://${Where}`));

const warm = await library.acquire(`warm-${Process}`, milliseconds(Workload.TTL));
await library.release(await library.extend(warm, milliseconds(Workload.TTL)));
say({});

const start = BigInt(/\d+/.exec((await orders.next()).value)[0]); // JSON.parse would round it
orders.next().then(() => process.exit(1)); // the parent is gone
await sleep(milliseconds(start - now()));
const stop = start + BigInt(Workload.Lasts);
const goroutines = Array.from({ length: Workload.Goroutines }, (_, g) => g);
const tallies = await Promise.all(goroutines.map((g) => turns(library, assignment, g, stop)));
say({ Tallies: tallies }, () => process.exit());
