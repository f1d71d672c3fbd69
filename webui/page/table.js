// The table. Only the rows on the screen are in the page, so that thousands of names cost no more than a few dozen.
import { byID, el, setText } from "./dom.js";
import { hostOf, labelOf, left, now, since, visible } from "./format.js";
import { copyButton, showCommand } from "./command.js";
import { columns, view } from "./model.js";

const beyond = 6; // rows above and below the screen

export const table = (onOpen, onSort) => {
  const grid = byID("grid"), body = byID("body"), spacer = byID("spacer"), head = byID("head");
  const pool = [];
  let active = "", height = 44, drawn = false;

  for (const c of columns) {
    head.append(el("div", { role: "columnheader", class: c.key, data: { key: c.key } },
      el("button", { type: "button", tabindex: -1, onclick: () => onSort(c.key) }, c.title)));
  }
  head.append(el("div", { role: "columnheader", class: "more" }, el("span", { class: "sr" }, "Copy as command")));

  const newRow = () => {
    const cells = {};
    const cell = (key, ...inside) => (cells[key] = el("div", { role: key === "name" ? "rowheader" : "gridcell", class: key }, inside));
    const parts = {
      nameText: el("bdi"), modeText: el("span", { class: "pill" }), label: el("bdi", { class: "label" }), host: el("span", { class: "host" }),
      bar: el("i"), leftText: el("span"), waiters: el("span", { class: "badge" }),
    };
    const node = el("div", { class: "row", role: "row" },
      cell("name", parts.nameText), cell("mode", parts.modeText), cell("holder", parts.label, " ", parts.host), cell("held"),
      cell("left", parts.leftText, el("span", { class: "bar", "aria-hidden": "true" }, parts.bar)), cell("token"),
      cell("waiters", parts.waiters), cell("longest"), cell("more"));
    const row = { node, cells, parts, index: -1, row: null };
    node.addEventListener("click", () => { if (row.row) { activate(row.row.name); onOpen(row.row.name); } });
    spacer.append(node);
    return row;
  };

  const show = (slot, index) => {
    const r = view.list[index], { node, cells, parts } = slot;
    if (slot.index !== index) {
      slot.index = index;
      node.id = `row-${index}`;
      node.setAttribute("aria-rowindex", index + 2);
      node.style.transform = `translateY(${index * height}px)`;
    }
    if (slot.row !== r) {
      slot.row = r;
      setText(parts.nameText, visible(r.name));
      cells.name.title = visible(r.name);
      setText(parts.modeText, r.mode ?? "");
      parts.modeText.dataset.mode = /of/.test(r.mode) ? "units" : r.mode;
      const more = r.holders > 1 ? ` +${r.holders - 1}` : "";
      setText(parts.label, r.holders ? labelOf(r.owner) + more : "not held");
      setText(parts.host, r.holders ? hostOf(r.owner) : "");
      cells.holder.title = r.holders ? `${labelOf(r.owner)}${more} ${hostOf(r.owner)}` : "";
      setText(cells.token, r.token ?? "");
      setText(parts.waiters, r.waiters ? r.waiters.toLocaleString("en") : "");
      node.classList.toggle("waited", r.waiters > 0);
      node.classList.toggle("dead", Boolean(r.dead));
      if (slot.copies !== r.name) {
        slot.copies = r.name;
        cells.more.replaceChildren(copyButton(`show ${r.name}`, showCommand(r.name)));
        cells.more.firstChild.tabIndex = -1;
      }
    }
    tick(slot);
    const isActive = r.name === active;
    node.classList.toggle("active", isActive);
    node.setAttribute("aria-selected", isActive);
    node.hidden = false;
  };

  // tick writes what changes by time alone.
  const tick = ({ row: r, cells, parts }) => {
    setText(cells.held, r.holders ? since(r.since) : "");
    setText(parts.leftText, r.holders ? left(r.until) : "");
    const part = r.full && r.until ? Math.max(0, Math.min(1, (r.until - now()) / r.full)) : 0;
    parts.bar.style.transform = `scaleX(${part.toFixed(3)})`;
    cells.left.classList.toggle("low", r.holders > 0 && part < 0.34);
    setText(cells.longest, r.waiters ? since(r.waiting) : "");
  };

  // draw brings the rows on the screen up to date.
  const draw = () => {
    drawn = true;
    const n = view.list.length;
    height = parseFloat(getComputedStyle(grid).getPropertyValue("--row"));
    spacer.style.height = `${n * height}px`;
    grid.setAttribute("aria-rowcount", n + 1);
    const first = Math.max(0, Math.floor(body.scrollTop / height) - beyond);
    const last = Math.min(n, Math.ceil((body.scrollTop + body.clientHeight) / height) + beyond);
    while (pool.length < last - first) pool.push(newRow());
    const taken = new Set();
    for (let i = first; i < last; i++) { const slot = pool[i % pool.length]; taken.add(slot); show(slot, i); }
    for (const slot of pool) if (!taken.has(slot)) { slot.node.hidden = true; slot.index = -1; slot.row = null; slot.node.removeAttribute("id"); }
    const at = indexOf(active);
    if (at >= first && at < last) grid.setAttribute("aria-activedescendant", `row-${at}`);
    else grid.removeAttribute("aria-activedescendant");
    for (const c of head.children) {
      if (c.dataset.key === view.sort) c.setAttribute("aria-sort", view.direction > 0 ? "ascending" : "descending");
      else c.removeAttribute("aria-sort");
    }
  };

  let requested = false;
  const redraw = () => {
    if (requested) return;
    requested = true;
    requestAnimationFrame(() => { requested = false; draw(); });
  };

  const indexOf = (name) => (name ? view.list.findIndex((r) => r.name === name) : -1);
  const activate = (name) => { active = name; redraw(); };

  const reveal = (i) => {
    const top = i * height;
    if (top < body.scrollTop) body.scrollTop = top;
    else if (top + height > body.scrollTop + body.clientHeight) body.scrollTop = top + height - body.clientHeight;
  };

  // move makes another row the active one: steps further, or the first or last.
  const move = (steps) => {
    const n = view.list.length, at = indexOf(active);
    if (!n) return;
    const to = at < 0 ? (steps < 0 ? n - 1 : 0) : Math.max(0, Math.min(n - 1, at + steps));
    activate(view.list[to].name);
    reveal(to);
  };

  body.addEventListener("scroll", redraw, { passive: true });
  new ResizeObserver(() => { if (drawn) { for (const s of pool) s.index = -1; redraw(); } }).observe(body);

  return {
    redraw, move, activate,
    tick: () => { for (const slot of pool) if (slot.row) tick(slot); },
    page: () => Math.max(1, Math.floor(body.clientHeight / height) - 1),
    active: () => (indexOf(active) >= 0 ? active : ""),
    shown: () => pool.filter((s) => s.row && s.row.holders).map((s) => s.row.name),
  };
};
