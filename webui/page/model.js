// What the page knows: the rows, and which of them are shown in which order.

export const rows = new Map();

const text = (r) => (r.text ??= [r.name, r.owner?.label, r.owner?.id, r.owner?.host, r.owner?.address, r.owner?.pid, r.token]
  .filter(Boolean).join("\n").toLowerCase());

const byName = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
const holder = (r) => r.owner?.label || r.owner?.id || r.owner?.host || "";
const number = (of, none) => (a, b) => (of(a) || none) - (of(b) || none);
const string = (of) => (a, b) => { const x = of(a), y = of(b); return x < y ? -1 : x > y ? 1 : 0; };

// The columns, in order. Each can be sorted by; first says in which direction the first click does.
export const columns = [
  { key: "name", title: "Name", compare: byName, first: 1 },
  { key: "mode", title: "Mode", compare: string((r) => r.mode ?? ""), first: 1 },
  { key: "holder", title: "Holder", compare: string(holder), first: 1 },
  { key: "held", title: "Held for", compare: number((r) => r.since, Infinity), first: 1 },
  { key: "left", title: "Time left", compare: number((r) => r.until, Infinity), first: 1 },
  { key: "token", title: "Token", compare: (a, b) => (a.token?.length ?? 0) - (b.token?.length ?? 0) ||
    string((r) => r.token ?? "")(a, b), first: -1 },
  { key: "waiters", title: "Waiting", compare: number((r) => r.waiters, 0), first: -1 },
  { key: "longest", title: "Longest wait", compare: number((r) => r.waiting, Infinity), first: 1 },
];

export const view = { list: [], filter: "", only: "all", sort: "name", direction: 1, stale: true };

const narrowed = () => view.filter !== "" || view.only !== "all" || view.sort !== "name";

// put takes a row, unless a newer one is there.
export const put = (row) => {
  const old = rows.get(row.name);
  if (old && old.v > row.v) return;
  rows.set(row.name, row);
  if (old && !narrowed()) {
    row.at = old.at;
    view.list[old.at] = row;
  } else view.stale = true;
};

export const remove = (name) => { if (rows.delete(name)) view.stale = true; };

export const reset = () => { rows.clear(); view.stale = true; };

// arrange decides which rows are shown, and in which order.
export const arrange = () => {
  if (!view.stale) return;
  view.stale = false;
  const words = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const list = [];
  for (const r of rows.values()) {
    if (view.only === "waited" && !r.waiters || view.only === "dead" && !r.dead) continue;
    if (words.length && !words.every((w) => text(r).includes(w))) continue;
    list.push(r);
  }
  const { compare } = columns.find((c) => c.key === view.sort);
  const d = view.direction;
  list.sort((a, b) => d * compare(a, b) || byName(a, b));
  list.forEach((r, i) => { r.at = i; });
  view.list = list;
};

// longest returns since when the claim has waited that waits longest, or 0.
export const longest = () => {
  let first = 0;
  for (const r of rows.values()) if (r.waiting && (!first || r.waiting < first)) first = r.waiting;
  return first;
};
