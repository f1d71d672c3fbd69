// The page: what the other modules do, put together.
import { getJSON, setToken, takeToken } from "./api.js";
import { copy, setStore, showCommand } from "./command.js";
import { detail } from "./detail.js";
import { closeDialog, openDialog } from "./dialog.js";
import { byID, el, setText } from "./dom.js";
import { hostOf, labelOf, moment, plural, setClock, since, visible } from "./format.js";
import { arrange, columns, longest, put, remove, reset, rows, view } from "./model.js";
import { stream } from "./stream.js";
import { table } from "./table.js";

const refreshEvery = 2000; // of the time left of what is on the screen
const arrangeEvery = 400; // at most, while rows change

takeToken();
let info = { break: false, health: false }, open = "", connection, live = false, deadlocks = [], loaded = false;

// --- the table

const onSort = (key) => {
  const column = columns.find((c) => c.key === key);
  view.direction = view.sort === key ? -view.direction : column.first;
  view.sort = key;
  byID("sort").value = key;
  view.stale = true;
  arranged();
};
const grid = table((name) => show(name), onSort);

for (const c of columns) byID("sort").append(el("option", { value: c.key }, `Sort by ${c.title.toLowerCase()}`));
byID("sort").addEventListener("change", (e) => { view.direction = -1 * columns.find((c) => c.key === e.target.value).first; view.sort = e.target.value; onSort(view.sort); });

const arranged = () => {
  arrange();
  const n = view.list.length;
  setText(byID("count"), n === rows.size ? plural(n, "name") : `${n.toLocaleString("en")} of ${plural(rows.size, "name")}`);
  const empty = byID("empty");
  empty.hidden = n > 0;
  if (n === 0) {
    setText(empty, !loaded ? "Reading the store…" : rows.size ? "No name matches the filter." :
      "No lock is held or waited for. This page changes as soon as one is.");
  }
  grid.redraw();
};

let arranging;
const arrangeSoon = () => { arranging ??= setTimeout(() => { arranging = undefined; arranged(); }, rows.size > 2000 ? arrangeEvery : 50); };

// --- what the handler sends

const stats = (m) => {
  setText(byID("stat-names"), rows.size.toLocaleString("en"));
  setText(byID("stat-held"), m.held.toLocaleString("en"));
  setText(byID("stat-waiting"), m.waiting.toLocaleString("en"));
  setText(byID("stat-deadlocks"), String(m.deadlocks.length));
  byID("tile-deadlocks").classList.toggle("bad", m.deadlocks.length > 0);
};

const warn = (m) => {
  const failure = byID("failure");
  failure.hidden = !m.failing;
  const unread = byID("unread");
  unread.hidden = !m.unread;
  setText(unread, m.unread ? `${plural(m.unread, "name")} cannot be read. ${visible(m.unreadWhy)}` : "");
  setText(failure, m.failing ? `The store is failing, and what is shown is old. ${visible(m.failing)}` : "");
  if (JSON.stringify(deadlocks) === JSON.stringify(m.deadlocks)) return;
  deadlocks = m.deadlocks;
  const node = byID("deadlocks");
  node.hidden = deadlocks.length === 0;
  node.replaceChildren(...deadlocks.slice(0, 3).map((steps) => el("div", null,
    el("b", null, "Deadlock: "), steps.map((s, i) => [i > 0 && " → ", el("bdi", null, labelOf(s.owner))]), " → ", el("bdi", null, labelOf(steps[0].owner)), " ",
    el("button", { type: "button", class: "link", onclick: () => show(steps[0].name) }, "Show"))));
};

const onMessage = (event, m) => {
  setClock(m.now);
  const first = m.loaded !== loaded;
  loaded = m.loaded;
  if (event === "all") reset();
  let mine = event === "all";
  for (const r of m.rows ?? []) { put(r); mine ||= r.name === open; }
  for (const name of m.gone ?? []) { remove(name); mine ||= name === open; }
  stats(m);
  warn(m);
  if (event === "all" || first) arranged();
  else if (m.rows || m.gone) { if (view.stale) arrangeSoon(); else grid.redraw(); }
  if (mine) fetchSoon();
};

const onState = (state, { wait, error } = {}) => {
  live = state === "live";
  const node = byID("state");
  node.dataset.state = state;
  document.body.classList.toggle("stale", !live);
  setText(byID("state-text"), {
    live: "Live",
    paused: "Paused",
    locked: "Locked",
    lost: `Connection lost, trying again in ${Math.max(1, Math.round((wait ?? 0) / 1000))} s`,
  }[state]);
  node.title = error ? visible(error.message) : "";
  if (state === "locked") unlock();
};

// unlock requests the token, which the command has printed.
const unlock = () => {
  const field = el("input", { type: "password", id: "token", autocomplete: "off", "aria-label": "Token" });
  const enter = () => { setToken(field.value.trim()); closeDialog(); start(); };
  field.addEventListener("keydown", (e) => { if (e.key === "Enter") { e.preventDefault(); enter(); } });
  openDialog("This page needs its token", [
    el("p", null, "The token is missing or wrong. Open the address that holdfast ui has printed, or enter its token here."), field,
  ], [el("button", { type: "button", class: "primary", onclick: enter }, "Continue")]);
  field.focus();
};

// --- the detail of a queue

const panel = detail({
  onOpen: (name) => show(name), onClose: () => hide(), canBreak: () => info.break, onBreak: (name, entry) => confirmBreak(name, entry),
});

const show = (name) => {
  open = name;
  grid.activate(name);
  panel.open(name);
  history.replaceState(null, "", `#name=${encodeURIComponent(name)}`);
  fetchSoon(0);
};

const hide = () => {
  open = "";
  panel.close();
  history.replaceState(null, "", location.pathname + location.search);
};

let fetching;
const fetchSoon = (wait = 150) => {
  if (!open) return;
  if (wait === 0) { clearTimeout(fetching); fetching = undefined; }
  fetching ??= setTimeout(async () => {
    fetching = undefined;
    const name = open;
    if (!name) return;
    try {
      const d = await getJSON(`queue?name=${encodeURIComponent(name)}`);
      if (open === name) panel.show(d);
    } catch { /* the state of the connection says so */ }
  }, wait);
};

const confirmBreak = (name, e) => {
  const verb = e.held ? "holds" : "waits for";
  const note = el("p", { class: "error", role: "alert" });
  const button = el("button", { type: "button", class: "danger solid", onclick: async () => {
    button.disabled = true;
    try {
      await getJSON("break", { body: { name, token: e.token } });
      closeDialog();
      fetchSoon(0);
    } catch (error) {
      setText(note, visible(error.message));
      button.disabled = false;
    }
  } }, "Break the claim");
  openDialog("Break this claim?", [
    el("dl", { class: "facts confirm" },
      el("div", null, el("dt", null, e.held ? "Holder" : "Waiter"), el("dd", null, el("bdi", null, labelOf(e.owner)), " ", el("span", { class: "host" }, hostOf(e.owner)))),
      el("div", null, el("dt", null, e.held ? "Holds" : "Waits for"), el("dd", null, el("bdi", null, visible(name)))),
      el("div", null, el("dt", null, "Token"), el("dd", { class: "mono" }, e.token)),
      el("div", null, el("dt", null, "Since"), el("dd", null, moment(e.since)))),
    e.held
      ? el("p", null, "The next claim is granted at once, while this holder may go on working until it learns of the loss. Make sure that it is dead, or that what the lock protects checks fencing tokens.")
      : el("p", null, `It ${verb} the name. It loses its position, and may queue again at the end.`),
    note,
  ], [button], "warning");
  byID("dialog").querySelector(".dialog-buttons button").focus();
};

// --- what is on the screen is kept fresh

setInterval(async () => {
  if (!live || document.hidden) return;
  fetchSoon();
  const names = grid.shown().slice(0, 100);
  if (!names.length) return;
  try {
    const { rows: fresh } = await getJSON("refresh", { body: { names } });
    for (const r of fresh) if (rows.has(r.name)) put(r);
    if (view.stale) arrangeSoon(); else grid.redraw();
  } catch { /* the state of the connection says so */ }
}, refreshEvery);

setInterval(() => {
  if (document.hidden || !live) return;
  grid.tick();
  panel.tick();
  setText(byID("stat-longest"), longest() ? since(longest()) : "–");
}, 500);

// --- filter, theme, help, health

byID("filter").addEventListener("input", (e) => { view.filter = e.target.value; view.stale = true; byID("body").scrollTop = 0; arranged(); });

for (const chip of document.querySelectorAll("[data-only]")) {
  chip.addEventListener("click", () => {
    view.only = chip.dataset.only;
    for (const other of document.querySelectorAll("[data-only]")) other.setAttribute("aria-pressed", other === chip);
    view.stale = true;
    byID("body").scrollTop = 0;
    arranged();
  });
}

const themes = ["auto", "light", "dark"];
const setTheme = (theme) => {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const label = `Colour theme: ${theme === "auto" ? "as the system" : theme}`;
  byID("theme-button").setAttribute("aria-label", label);
  byID("theme-button").title = label;
  localStorage.setItem("holdfast-ui-theme", theme);
};
const nextTheme = () => {
  const at = themes.indexOf(localStorage.getItem("holdfast-ui-theme") ?? "auto");
  setTheme(themes[(at + 1) % themes.length]);
};
setTheme(themes.includes(localStorage.getItem("holdfast-ui-theme")) ? localStorage.getItem("holdfast-ui-theme") : "auto");
byID("theme-button").addEventListener("click", nextTheme);

const keys = [
  ["/", "Filter"], ["↓ ↑", "Next or previous name"], ["Page Down, Page Up, Home, End", "Further"], ["Enter", "Show the detail"],
  ["c", "Copy as command"], ["t", "Colour theme"], ["Esc", "Close, or clear the filter"], ["?", "This help"],
];
const help = () => openDialog("Keyboard", [
  el("dl", { class: "keys" }, keys.map(([key, what]) => el("div", null, el("dt", null, el("kbd", null, key)), el("dd", null, what)))),
  el("p", { class: "muted" }, "Time left is how long a claim lasts if it is not renewed; a living holder renews it about three times before. ",
    "The timeline says “ended” where the store does not report why a claim is gone."),
]);
byID("help-button").addEventListener("click", help);

const health = async () => {
  const box = el("div", { class: "checks" }, el("p", { class: "muted" }, "Checking…"));
  openDialog("Store health", [box]);
  try {
    const { checks } = await getJSON("health");
    box.replaceChildren(...checks.map((c) => el("div", { class: "check", data: { status: c.status } },
      el("span", { class: "pill" }, c.status), el("div", null, el("b", null, visible(c.name)), c.detail && el("p", null, visible(c.detail)),
        c.fix && el("p", { class: "mono" }, visible(c.fix))))));
  } catch (error) {
    setText(box, visible(error.message));
  }
};
byID("health-button").addEventListener("click", health);

// --- keyboard

addEventListener("keydown", (e) => {
  if (byID("dialog").open || e.ctrlKey || e.metaKey || e.altKey) return;
  const filter = byID("filter"), typing = e.target.matches("input, textarea, select");
  const act = (f) => { e.preventDefault(); f(); };
  if (e.key === "Escape") {
    if (typing && filter.value) act(() => { filter.value = ""; filter.dispatchEvent(new Event("input")); });
    else if (open) act(hide);
    else if (typing) act(() => byID("grid").focus());
    return;
  }
  if (e.key === "ArrowDown" && e.target === filter) { act(() => { byID("grid").focus(); grid.move(1); }); return; }
  if (e.key === "Enter" && e.target === filter && view.list.length) { act(() => { grid.move(0); show(grid.active()); }); return; }
  if (typing) return;
  const onGrid = !byID("detail").contains(e.target) && e.target.tagName !== "BUTTON";
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: grid.page(), PageUp: -grid.page(), Home: -Infinity, End: Infinity }[e.key];
  if (steps !== undefined && onGrid) act(() => grid.move(steps));
  else if (e.key === "Enter" && onGrid && grid.active()) act(() => { show(grid.active()); });
  else if (e.key === "/") act(() => filter.focus());
  else if (e.key === "?") act(help);
  else if (e.key === "t") act(nextTheme);
  else if (e.key === "c" && (open || grid.active())) act(() => copy(showCommand(open || grid.active())));
});

// --- start

// start learns what does not change, and connects. It tries again until the handler responds.
const start = async () => {
  try {
    info = await getJSON("info");
  } catch (error) {
    if (error.status === 401) { onState("locked"); return; }
    onState("lost", { wait: 2000, error });
    setTimeout(start, 2000);
    return;
  }
  setStore(info.url);
  const prefix = info.prefix ? `, names that begin with ${visible(info.prefix)}` : "";
  setText(byID("store"), visible(info.store) + prefix);
  document.title = `Holdfast · ${visible(info.store)}`;
  byID("health-button").hidden = !info.health;
  if (connection) connection.reconnect();
  else connection = stream(onMessage, onState);
};

arranged();
await start();
const wanted = new URLSearchParams(location.hash.slice(1)).get("name");
if (wanted) show(wanted);
byID("grid").focus({ preventScroll: true });
