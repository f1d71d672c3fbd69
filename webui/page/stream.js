// The connection by which the handler sends what changes: server-sent events, read with fetch so that the token can be
// in a header. It connects again when it is lost, and pauses while the tab is in the background.
import { request } from "./api.js";

const silence = 15_000; // after which the connection counts as lost; the handler sends something every five seconds
const slowest = 10_000; // between two attempts
const hiddenFor = 20_000; // after which a tab in the background disconnects

export const stream = (onMessage, onState) => {
  let abort, retry, asleep, attempt = 0;

  const connect = async () => {
    clearTimeout(retry);
    abort = new AbortController();
    const mine = abort;
    let watchdog;
    const alive = () => { clearTimeout(watchdog); watchdog = setTimeout(() => mine.abort(), silence); };
    try {
      alive();
      const response = await request("events", { signal: mine.signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { value, done } = await reader.read();
        if (done) throw new Error("the connection was closed");
        alive();
        rest += value;
        for (let from = Math.max(0, rest.length - value.length - 1), end; (end = rest.indexOf("\n\n", from)) >= 0; from = 0) {
          const [event, data] = rest.slice(0, end).split("\n");
          rest = rest.slice(end + 2);
          onMessage(event.slice("event: ".length), JSON.parse(data.slice("data: ".length)));
          if (attempt || event === "event: all") onState("live");
          attempt = 0;
        }
      }
    } catch (error) {
      if (mine !== abort) return; // replaced, or asleep
      const wait = Math.min(slowest, 500 * 2 ** attempt++) * (0.75 + Math.random() / 2);
      onState(error.status === 401 ? "locked" : "lost", { wait, error });
      if (error.status !== 401) retry = setTimeout(connect, wait);
    } finally {
      clearTimeout(watchdog);
    }
  };

  const stop = () => { const old = abort; abort = null; clearTimeout(retry); old?.abort(); };

  document.addEventListener("visibilitychange", () => {
    clearTimeout(asleep);
    if (document.hidden) asleep = setTimeout(() => { stop(); onState("paused"); }, hiddenFor);
    else if (!abort) connect();
  });
  addEventListener("online", () => { if (abort) { stop(); connect(); } });
  connect();
  return { reconnect: () => { stop(); attempt = 0; connect(); } };
};
