// The detail of one queue.
import { byID, el, setText } from "./dom.js";
import { clock, duration, hostOf, labelOf, left, moment, now, plural, since, visible } from "./format.js";
import { breakCommand, copyButton, showCommand } from "./command.js";
import { drawDeadlock, drawTimeline } from "./draw.js";

const shownWaiters = 50;

// ownerOf writes an owner in two lines.
const ownerOf = (owner) => el("span", { class: "owner" },
  el("bdi", { class: "label" }, labelOf(owner)), el("span", { class: "host" }, hostOf(owner)));

const nameLink = (name, onOpen) => el("button", {
  type: "button", class: "link name-link", data: { key: `open ${name}` }, onclick: () => onOpen(name),
}, el("bdi", null, visible(name)));

// facts writes what is known of an owner beyond its name.
const facts = (owner) => [
  ["Host", owner.host], ["Address", owner.address], ["Process", owner.pid], ["Owner", owner.id], ["Started", owner.started && moment(Date.parse(owner.started))],
].filter(([, value]) => value).map(([key, value]) => el("div", null, el("dt", null, key), el("dd", null, el("bdi", null, visible(value)))));

export const detail = ({ onOpen, onClose, onBreak, canBreak }) => {
  const panel = byID("detail");
  let data = null, lastFocus = null;
  const parts = new Map(); // section → [signature, node]

  // section makes a part of the panel anew only if what it shows changed, so that focus and selection stay.
  const section = (key, signature, make) => {
    const known = parts.get(key), text = JSON.stringify(signature);
    if (known && known.text === text) return known.node;
    const node = make();
    parts.set(key, { text, node });
    return node;
  };

  const also = (e) => (e.also ?? []).map((link) => el("span", { class: "also" },
    link.held ? "also holds " : "also waits for ", nameLink(link.name, onOpen)));

  const claimButtons = (e) => el("div", { class: "claim-buttons" },
    copyButton(`break ${data.name}, token ${e.token}`, breakCommand(data.name, e.token), e.held ? "Copy break command" : ""),
    canBreak() && el("button", {
      type: "button", class: "danger", data: { key: `break ${e.token}` }, onclick: () => onBreak(data.name, e),
    }, "Break…"));

  const holderCard = (e) => el("li", { class: "card" },
    el("div", { class: "card-head" }, ownerOf(e.owner), el("span", { class: "pill", data: { mode: / of /.test(e.mode) ? "units" : e.mode } }, e.mode)),
    el("dl", { class: "facts" },
      el("div", null, el("dt", null, "Held for"), el("dd", { data: { since: e.since ?? 0 }, title: moment(e.since) })),
      el("div", null, el("dt", null, "Time left"), el("dd", { data: { until: e.token } })),
      el("div", null, el("dt", null, "Token"), el("dd", { class: "mono" }, e.token)),
      facts(e.owner)),
    el("span", { class: "bar wide", "aria-hidden": "true" }, el("i", { data: { bar: e.token } })),
    also(e), claimButtons(e));

  const waiterItem = (e, i) => el("li", { class: "waiter" },
    el("span", { class: "position", "aria-label": `Position ${i + 1}` }, i + 1),
    el("div", { class: "waiter-main" },
      el("div", { class: "waiter-head" }, ownerOf(e.owner), el("span", { class: "muted" }, e.mode === "exclusive" ? "" : e.mode),
        el("span", { class: "waits", data: { since: e.since ?? 0 }, title: moment(e.since) })),
      el("div", { class: "waiter-foot" }, el("span", { class: "mono muted" }, `token ${e.token}`), also(e), claimButtons(e))));

  const block = (t) => el("li", null,
    el("div", { class: "node holder-node" },
      el("span", { class: "dot held", "aria-hidden": "true" }),
      el("span", null,
        t.holders?.length ? t.holders.map((o, i) => [i > 0 && ", ", el("bdi", { class: "label" }, labelOf(o))]) : "no claim",
        t.more > 0 && ` and ${t.more} more`, t.holders?.length + t.more > 1 ? " hold " : " holds ",
        t.name === data.name ? el("b", null, "this name") : nameLink(t.name, onOpen)),
      t.root && el("span", { class: "pill root" }, "root")),
    t.waiters.length + t.hidden > 0 && el("ul", null,
      t.waiters.map((w) => el("li", null,
        el("div", { class: "node" }, el("span", { class: "dot waiting", "aria-hidden": "true" }),
          el("span", null, el("bdi", { class: "label" }, labelOf(w.owner)), " waits ", el("span", { class: "muted", data: { since: w.since ?? 0 } })),
          w.again?.map((name) => el("span", { class: "pill bad" }, "and holds ", el("bdi", null, visible(name)), ": circle"))),
        w.blocks && el("ul", null, w.blocks.map((b) => block(b))))),
      t.hidden > 0 && el("li", { class: "muted" }, `and ${plural(t.hidden, "more waiter")}`)));

  const eventItem = (e) => el("li", { class: "event", data: { kind: e.kind } },
    el("time", { datetime: new Date(e.at).toISOString(), title: moment(e.at) }, clock(e.at)),
    el("span", { class: "kind" }, e.kind),
    el("span", { class: "event-text" }, el("bdi", { class: "label" }, labelOf(e.owner)), e.why && el("span", { class: "muted" }, ` ${visible(e.why)}`),
      el("span", { class: "mono muted token" }, ` ${e.token}`)));

  const render = () => {
    const d = data, holders = d.entries.filter((e) => e.held), waiters = d.entries.filter((e) => !e.held);
    const still = (es) => es.map((e) => ({ ...e, until: 0, full: 0 }));
    const head = section("head", d.name, () => el("div", { class: "detail-head" },
      el("h2", null, el("bdi", null, visible(d.name))),
      el("button", { type: "button", class: "icon close", "aria-label": "Close the detail", data: { key: "close" }, onclick: onClose }, "✕")));
    const tools = section("tools", d.name, () => el("div", { class: "claim-buttons" },
      copyButton(`show ${d.name}`, showCommand(d.name), "Copy show command")));
    const summary = section("summary", [d.holders, d.waiters], () => el("p", { class: "summary" },
      d.holders ? plural(d.holders, "holder") : "Not held", ", ", d.waiters ? `${d.waiters.toLocaleString("en")} waiting` : "no claim waits", "."));
    const nodes = [head, summary, tools];
    if (d.deadlocks.length) {
      nodes.push(section("deadlocks", d.deadlocks, () => el("section", { class: "dead-box" }, el("h3", null, "Deadlock"),
        el("p", null, "Each of these owners waits for a name that the next one has. None can go on before another one gives up."),
        d.deadlocks.map(drawDeadlock))));
    } else parts.delete("deadlocks");
    if (holders.length) {
      nodes.push(section("holders", still(holders), () => el("section", null, el("h3", null, "Holders"),
        el("ul", { class: "cards" }, holders.map(holderCard)))));
    }
    if (waiters.length) {
      nodes.push(section("waiters", still(waiters.slice(0, shownWaiters)).concat(waiters.length), () => el("section", null,
        el("h3", null, "Waiters ", el("span", { class: "muted" }, "in order")),
        el("ol", { class: "waiters" }, waiters.slice(0, shownWaiters).map(waiterItem)),
        d.waiters > shownWaiters && el("p", { class: "muted" }, `and ${(d.waiters - shownWaiters).toLocaleString("en")} more`))));
      nodes.push(section("tree", [d.name, d.tree], () => el("section", null, el("h3", null, "Blocking"),
        el("ul", { class: "tree" }, d.tree.map((t) => block(t))))));
    }
    if (d.notes.length) {
      nodes.push(section("notes", d.notes, () => el("section", null, el("h3", null, "What could be refused"),
        el("ul", { class: "notes" }, d.notes.map((n) => el("li", null, visible(n)))))));
    }
    nodes.push(section("timeline", [Math.floor(now() / 2000), d.events, d.entries.length], () => el("div", { class: "chart" }, drawTimeline(d))));
    nodes.splice(-1, 0, section("timeline-head", d.watched, () => el("h3", null, "Timeline ",
      el("span", { class: "muted" }, d.watched ? `watched since ${clock(d.watched)}` : ""))));
    nodes.push(section("events", d.events, () => (d.events.length
      ? el("ol", { class: "events" }, d.events.map(eventItem))
      : el("p", { class: "muted" }, "Nothing has changed since then."))));

    const focus = panel.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    if (panel.children.length !== nodes.length || nodes.some((n, i) => panel.children[i] !== n)) {
      const top = panel.scrollTop;
      panel.replaceChildren(...nodes);
      panel.scrollTop = top;
      if (focus) [...panel.querySelectorAll("[data-key]")].find((n) => n.dataset.key === focus)?.focus({ preventScroll: true });
    }
    tick();
  };

  // tick writes what changes by time alone.
  const tick = () => {
    if (!data) return;
    for (const n of panel.querySelectorAll("[data-since]")) setText(n, since(Number(n.dataset.since)));
    const byToken = new Map(data.entries.map((e) => [e.token, e]));
    for (const n of panel.querySelectorAll("[data-until]")) setText(n, left(byToken.get(n.dataset.until)?.until));
    for (const n of panel.querySelectorAll("[data-bar]")) {
      const e = byToken.get(n.dataset.bar);
      const part = e?.full ? Math.max(0, Math.min(1, (e.until - now()) / e.full)) : 0;
      n.style.transform = `scaleX(${part.toFixed(3)})`;
      n.parentNode.classList.toggle("low", part < 0.34);
    }
  };

  return {
    open: (name) => {
      if (panel.hidden) lastFocus = document.activeElement;
      if (data?.name !== name) { data = null; parts.clear(); panel.replaceChildren(el("p", { class: "muted loading" }, "Loading…")); panel.scrollTop = 0; }
      panel.hidden = false;
      document.body.classList.add("with-detail");
    },
    close: () => {
      panel.hidden = true;
      data = null;
      parts.clear();
      document.body.classList.remove("with-detail");
      (lastFocus?.isConnected && lastFocus !== document.body ? lastFocus : byID("grid")).focus({ preventScroll: true });
    },
    show: (d) => { data = d; render(); },
    tick,
    age: () => (data ? duration(now() - data.now) : ""),
  };
};
