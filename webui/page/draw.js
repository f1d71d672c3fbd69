// Drawings: a deadlock as a circle, and the timeline of a queue as bars.
import { el, svg } from "./dom.js";
import { clock, duration, hostOf, labelOf, now, since, visible } from "./format.js";

const short = (text, most) => { const all = [...text]; return all.length > most ? `${all.slice(0, most - 1).join("")}…` : text; };

// drawDeadlock draws owners on a circle, with an arrow from each to the one it waits for.
export const drawDeadlock = (steps) => {
  const n = steps.length, width = 460, height = n === 2 ? 150 : 330, cx = width / 2, cy = height / 2;
  const rx = n === 2 ? 140 : 150, ry = n === 2 ? 0 : 112, box = { w: 132, h: 46 };
  const at = (i) => {
    const angle = (i / n) * 2 * Math.PI - (n === 2 ? Math.PI : Math.PI / 2);
    return { x: cx + rx * Math.cos(angle), y: cy + ry * Math.sin(angle) };
  };
  const text = steps.map((s, i) => `${labelOf(s.owner)} waits for ${visible(s.name)}, which ${labelOf(steps[(i + 1) % n].owner)} ${s.holds ? "holds" : "waits for further ahead"}`).join("; ");
  const id = `arrow-${Math.random().toString(36).slice(2)}`;
  const edges = steps.map((s, i) => {
    const a = at(i), b = at((i + 1) % n), dx = b.x - a.x, dy = b.y - a.y, length = Math.hypot(dx, dy);
    const bend = n === 2 ? 74 : 26, mx = (a.x + b.x) / 2 + (dy / length) * bend, my = (a.y + b.y) / 2 - (dx / length) * bend;
    // The arrow begins and ends at the edge of the boxes.
    const edge = (p, q, gap) => {
      const ux = q.x - p.x, uy = q.y - p.y, t = Math.min((box.w / 2 + gap) / Math.abs(ux || 1e-9), (box.h / 2 + gap) / Math.abs(uy || 1e-9));
      return { x: p.x + ux * Math.min(t, 1), y: p.y + uy * Math.min(t, 1) };
    };
    const m = { x: mx, y: my }, from = edge(a, m, 2), to = edge(b, m, 7);
    const label = { x: 0.25 * from.x + 0.5 * mx + 0.25 * to.x, y: 0.25 * from.y + 0.5 * my + 0.25 * to.y };
    return [
      svg("path", { class: "edge", d: `M${from.x} ${from.y}Q${mx} ${my} ${to.x} ${to.y}`, "marker-end": `url(#${id})` }),
      svg("text", { class: "edge-label", x: label.x, y: label.y + (n === 2 ? (i ? 16 : -9) : 4) },
        svg("title", null, visible(s.name)), short(visible(s.name), 22)),
    ];
  });
  const nodes = steps.map((s, i) => {
    const p = at(i);
    return svg("g", { class: "party" }, svg("title", null, `${labelOf(s.owner)} ${hostOf(s.owner)}, waits since ${clock(s.since)}`),
      svg("rect", { x: p.x - box.w / 2, y: p.y - box.h / 2, width: box.w, height: box.h, rx: 9 }),
      svg("text", { x: p.x, y: p.y - 3 }, short(labelOf(s.owner), 17)),
      svg("text", { class: "small", x: p.x, y: p.y + 14 }, `waits ${since(s.since)}`));
  });
  return svg("svg", { class: "deadlock", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Deadlock: ${text}` },
    svg("defs", null, svg("marker", { id, viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
      svg("path", { class: "arrow", d: "M0 0L8 4L0 8z" }))),
    edges, nodes);
};

const ends = new Set(["released", "expired", "lost", "broken", "ended", "left the queue"]);

// claims returns what is known of each claim of a queue: since when it waited, held, and how it ended.
const claims = (d) => {
  const all = new Map();
  const claim = (token, owner) => {
    const ticket = String(BigInt(token) >> 8n);
    if (!all.has(ticket)) all.set(ticket, { owner });
    return all.get(ticket);
  };
  for (const e of d.events.toReversed()) {
    const c = claim(e.token, e.owner);
    if (e.kind === "queued") c.waits = e.at;
    else if (e.kind === "granted") c.holds = e.at;
    else if (ends.has(e.kind)) { c.ends = e.at; c.how = e.kind; c.before = d.watched; }
  }
  for (const e of d.entries) {
    const c = claim(e.token, e.owner);
    if (e.held) c.holds = e.since || c.holds || d.watched;
    else c.waits = e.since || c.waits || d.watched;
  }
  return [...all.values()];
};

const lanes = 10;

// drawTimeline draws the last minutes: one lane for each claim, waiting and then holding.
export const drawTimeline = (d) => {
  const all = claims(d).sort((a, b) => (b.ends ?? Infinity) - (a.ends ?? Infinity) || (a.holds ?? Infinity) - (b.holds ?? Infinity) || a.waits - b.waits);
  const list = all.slice(0, lanes);
  if (!list.length) return el("span");
  const end = now(), begins = list.map((c) => c.waits ?? c.holds ?? c.ends ?? end);
  const span = Math.min(600_000, Math.max(30_000, end - Math.min(...begins, d.watched || end)));
  const width = 460, labels = 118, lane = 22, top = 4, height = top + list.length * lane + 18;
  const x = (t) => labels + Math.max(0, Math.min(1, 1 - (end - t) / span)) * (width - labels - 6);
  const bars = list.map((c, i) => {
    const y = top + i * lane, stop = c.ends ?? end, from = c.waits ?? c.holds ?? c.before ?? end - span;
    const held = c.holds ?? (c.how && c.how !== "left the queue" && !c.waits ? from : null);
    return svg("g", null,
      svg("text", { class: "lane-label", x: labels - 8, y: y + 14 }, short(labelOf(c.owner), 16), svg("title", null, `${labelOf(c.owner)} ${hostOf(c.owner)}`)),
      c.waits && svg("rect", { class: "span waiting", x: x(c.waits), y: y + 8, width: Math.max(2, x(held ?? stop) - x(c.waits)), height: 5, rx: 2 }),
      held && svg("rect", { class: "span holding", x: x(held), y: y + 4, width: Math.max(3, x(stop) - x(held)), height: 13, rx: 4 }),
      c.how && svg("circle", { class: "mark", "data-kind": c.how, cx: x(c.ends), cy: y + 10.5, r: 5 }, svg("title", null, `${c.how} at ${clock(c.ends)}`)));
  });
  const ticks = [1, 0.5, 0].map((part) => svg("text", {
    class: "tick", x: x(end - span * part), y: height - 4, "text-anchor": part === 1 ? "start" : part === 0 ? "end" : "middle",
  }, part === 0 ? "now" : `${duration(span * part)} ago`));
  return [
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Timeline of the last ${duration(span)}: ${all.length} claims. The list below has its events.` },
      svg("line", { class: "axis", x1: labels, x2: width - 6, y1: height - 16, y2: height - 16 }), bars, ticks),
    el("p", { class: "legend muted", "aria-hidden": "true" }, el("i", { class: "waiting" }), "waiting", el("i", { class: "holding" }), "holding",
      all.length > lanes && el("span", null, `${all.length - lanes} older not drawn`)),
  ];
};
