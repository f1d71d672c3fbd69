"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const chart = $("chart"), overview = $("overview"), scroller = $("scroller"), spacer = $("spacer"), tip = $("tip");
  const picker = $("resource");

  // Sizes, in pixels of the page.
  const AXIS = 52, LANE = 18, GAP = 8, NEAR = 4, MOMENT = 4;
  const SHORTEST = 1000; // the shortest time that fills the timeline, in nanoseconds

  const layout = () => {
    let y = AXIS;
    for (const [index, row] of data.rows.entries()) {
      row.index = index;
      row.top = y;
      row.height = row.lanes * LANE + GAP;
      y += row.height;
    }
    return y + GAP;
  };
  const total = layout();

  const view = { from: 0, to: data.end };
  let width = 0, height = 0, gutter = 0, colors = {};
  let chosen = null; // {row, mark}, by keyboard
  let current = -1; // the finding that was jumped to
  let marked = null; // what is being marked with the mouse, as [x, x]

  // ---- text

  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const number = (n) => String(Number(n.toFixed(3)));
  const time = (ns) => {
    if (ns === 0) return "0s";
    const [size, unit] = units.find(([size]) => Math.abs(ns) >= size) ?? units[3];
    return number(ns / size) + unit;
  };
  const words = { wrote: "write accepted", refused: "write refused" };

  const describe = (row, mark) => {
    const lines = [row.name, words[mark.s] ?? mark.s];
    if (mark.r) lines[1] += ": " + mark.r;
    if (mark.k) lines[1] += " (" + mark.k + ")";
    if (mark.t) lines.push("token " + mark.t);
    lines.push(mark.b === mark.e && !mark.o ? "at " + time(mark.b)
      : `from ${time(mark.b)} to ${time(mark.e)}${mark.o ? " or later" : ""}, ${time(mark.e - mark.b)}`);
    if (mark.n) lines.push(mark.n);
    return lines;
  };
  const during = (list, from, to) => list.filter((f) => f.begin <= to && f.end >= from);
  const faultsAt = (from, to) => {
    const lines = during(data.faults, from, to).map((f) => `fault: ${f.name}, ${f.target}, ${time(f.end - f.begin)}`);
    return lines.length > 4 ? [...lines.slice(0, 3), `and ${lines.length - 3} other faults`] : lines;
  };
  const violationsAt = (index, from, to) => during(data.findings, from, to)
    .filter((f) => f.rows.includes(index)).slice(0, 3).map((f) => "violation: " + f.text);

  // ---- from time to pixels and back

  const scale = () => (width - gutter) / (view.to - view.from);
  const xOf = (t) => gutter + (t - view.from) * scale();
  const tOf = (x) => view.from + (x - gutter) / scale();

  const look = (from, to) => {
    const length = Math.min(Math.max(to - from, SHORTEST), data.end);
    const middle = (from + to) / 2;
    view.from = Math.min(Math.max(middle - length / 2, 0), data.end - length);
    view.to = view.from + length;
    $("range").textContent = `${time(view.from)} to ${time(view.to)} of ${time(data.end)}`;
    redraw();
  };
  const zoom = (factor, at = (view.from + view.to) / 2) =>
    look(at - (at - view.from) * factor, at + (view.to - at) * factor);
  const move = (share) => {
    const by = (view.to - view.from) * share;
    look(view.from + by, view.to + by);
  };

  // ---- drawing

  let pending = false;
  const redraw = () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      drawChart();
      drawOverview();
    });
  };

  const readColors = () => {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["back", "text", "muted", "line", "stripe", "link", "waiting", "holding", "on-holding", "lost",
      "on-lost", "wrote", "refused", "paused", "killed", "bad", "fault"]) {
      colors[name] = style.getPropertyValue("--" + name).trim();
    }
  };

  const fit = (canvas, w, h) => {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
    canvas.style.height = h + "px";
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    return g;
  };

  // clip cuts a text that is too wide.
  const clip = (g, text, room) => {
    if (g.measureText(text).width <= room) return text;
    let low = 0, high = text.length;
    while (low < high) {
      const half = (low + high + 1) >> 1;
      if (g.measureText(text.slice(0, half) + "…").width <= room) low = half;
      else high = half - 1;
    }
    return low > 0 ? text.slice(0, low) + "…" : "";
  };

  let chartContext, overviewContext;
  const resize = () => {
    width = scroller.clientWidth;
    gutter = Math.round(Math.min(190, width * 0.26));
    height = Math.min(total, Math.max(260, Math.round(window.innerHeight * 0.72)));
    scroller.style.height = height + 2 + "px";
    spacer.style.height = total + "px";
    width = scroller.clientWidth; // a scroll bar may have come
    chartContext = fit(chart, width, height);
    overviewContext = fit(overview, overview.clientWidth, 28);
    redraw();
  };

  const step = () => {
    const wanted = (view.to - view.from) / Math.max(2, (width - gutter) / 90);
    const power = 10 ** Math.floor(Math.log10(wanted));
    return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= wanted);
  };

  const drawChart = () => {
    const g = chartContext, scroll = scroller.scrollTop;
    g.clearRect(0, 0, width, height);
    const visible = data.rows.filter((row) => row.top - scroll < height && row.top + row.height - scroll > AXIS);
    drawStripes(g, visible, scroll);
    g.save();
    g.beginPath();
    g.rect(gutter, 0, width - gutter, height);
    g.clip();
    drawFaults(g, visible, scroll);
    drawAxis(g);
    drawFlags(g);
    g.beginPath();
    g.rect(gutter, AXIS, width - gutter, height - AXIS);
    g.clip();
    for (const row of visible) drawRow(g, row, row.top - scroll);
    drawFindings(g, scroll);
    drawLabels(g);
    if (chosen) drawChosen(g, scroll);
    if (marked) {
      g.fillStyle = colors.link;
      g.globalAlpha = 0.2;
      g.fillRect(Math.min(...marked), AXIS, Math.abs(marked[1] - marked[0]), height);
    }
    g.restore();
    drawNames(g, visible, scroll);
  };

  const drawStripes = (g, visible, scroll) => {
    for (const row of visible) {
      g.fillStyle = row.index % 2 ? colors.stripe : colors.back;
      g.fillRect(0, row.top - scroll, width, row.height);
    }
  };

  const drawAxis = (g) => {
    const by = step();
    g.strokeStyle = colors.line;
    g.fillStyle = colors.muted;
    g.lineWidth = 1;
    g.beginPath();
    for (let t = Math.ceil(view.from / by) * by; t <= view.to; t += by) {
      const x = Math.round(xOf(t)) + 0.5;
      g.moveTo(x, AXIS - 4);
      g.lineTo(x, height);
      g.fillText(time(Math.round(t)), x + 4, 12);
      g.moveTo(x, 4);
      g.lineTo(x, 18);
    }
    g.stroke();
  };

  const drawFaults = (g, visible, scroll) => {
    const seen = data.faults.filter((fault) => fault.end >= view.from && fault.begin <= view.to);
    let free = gutter; // where the last name has ended
    seen.forEach((fault, i) => {
      const x = Math.max(xOf(fault.begin), gutter - 2), w = Math.max(Math.min(xOf(fault.end), width + 2) - x, 2);
      g.fillStyle = colors.fault;
      g.globalAlpha = 0.13;
      g.fillRect(x, 22, w, height);
      g.globalAlpha = 0.25;
      for (const row of visible) {
        if (row.process === fault.target) g.fillRect(x, row.top - scroll, w, row.height);
      }
      g.globalAlpha = 1;
      g.fillRect(x, 22, w, 2);
      const from = Math.max(x + 4, free), next = i + 1 < seen.length ? xOf(seen[i + 1].begin) : width;
      const name = clip(g, fault.name, Math.max(x + w, next) - from - 4);
      if (name.length < Math.min(fault.name.length, 6)) return;
      g.fillText(name, from, 33);
      free = from + g.measureText(name).width + 8;
    });
  };

  const drawRow = (g, row, y) => {
    const wanted = picker?.value ?? "";
    const last = {}; // up to where each lane is drawn, by state: what is narrower than a pixel is drawn once
    for (const mark of row.marks) {
      if (mark.e < view.from && mark.b < view.from) continue;
      if (mark.b > view.to) break;
      const x = xOf(mark.b), end = xOf(mark.e), key = mark.s + (mark.l ?? 0);
      if (end - x < 1 && x < last[key]) continue;
      last[key] = Math.max(end, x + 1);
      g.globalAlpha = wanted && mark.r !== wanted ? 0.15 : 1;
      drawMark[mark.s]?.(g, mark, Math.max(x, gutter - 9), Math.min(end, width + 9), y + GAP / 2, row);
    }
    g.globalAlpha = 1;
  };

  let labels = []; // of bars; they stand above what marks a finding
  const drawLabels = (g) => {
    for (const label of labels) {
      g.globalAlpha = label.alpha;
      g.fillStyle = label.color;
      g.fillText(label.text, label.x, label.y);
    }
    g.globalAlpha = 1;
    labels = [];
  };

  const bar = (g, mark, x, end, y, color, on) => {
    const w = Math.max(end - x, 1.5), top = y + (mark.l ?? 0) * LANE + 1;
    g.fillStyle = color;
    g.fillRect(x, top, w, LANE - 3);
    if (w > 34) {
      const from = Math.max(x, gutter) + 4;
      const text = clip(g, mark.t ? `${mark.r} · ${mark.t}` : mark.r ?? "", x + w - from - 4);
      labels.push({ text, x: from, y: top + (LANE - 3) / 2 + 0.5, color: on, alpha: g.globalAlpha });
    }
    return [top, w];
  };
  const dot = (g, mark, x, y, row, draw) => {
    g.beginPath();
    draw(x, y + row.lanes * LANE / 2 - 0.5);
    g.fill();
    g.strokeStyle = colors.back;
    g.lineWidth = 1;
    g.stroke();
  };
  const drawMark = {
    waiting: (g, mark, x, end, y) => {
      g.fillStyle = colors.waiting;
      g.fillRect(x, y + (mark.l ?? 0) * LANE + LANE / 2 - 3, Math.max(end - x, 1), 4);
    },
    holding: (g, mark, x, end, y) => bar(g, mark, x, end, y, colors.holding, colors["on-holding"]),
    lost: (g, mark, x, end, y) => {
      const [top, w] = bar(g, mark, x, end, y, colors.lost, colors["on-lost"]);
      if (w > 8) hatch(g, x, top, w, LANE - 3, colors.back);
    },
    wrote: (g, mark, x, end, y, row) => {
      g.fillStyle = colors.wrote;
      dot(g, mark, x, y, row, (x, y) => g.arc(x, y, MOMENT - 0.5, 0, 7));
    },
    refused: (g, mark, x, end, y, row) => {
      g.fillStyle = colors.refused;
      dot(g, mark, x, y, row, (x, y) => {
        g.moveTo(x, y - MOMENT - 1);
        g.lineTo(x + MOMENT + 1, y);
        g.lineTo(x, y + MOMENT + 1);
        g.lineTo(x - MOMENT - 1, y);
        g.closePath();
      });
    },
    paused: (g, mark, x, end, y, row) => {
      const alpha = g.globalAlpha;
      g.globalAlpha = alpha * 0.75;
      g.fillStyle = colors.paused;
      for (let at = x; at < Math.max(end, x + 2); at += 5) g.fillRect(at, y - 2, 2, row.height - GAP + 4);
      g.globalAlpha = alpha;
    },
    killed: (g, mark, x, end, y, row) => {
      g.fillStyle = colors.killed;
      g.fillRect(x - 1.5, y - 2, 3, row.height - GAP + 4);
      g.fillRect(x, y + row.lanes * LANE / 2 - 1, Math.max(end - x, 0), 1);
    },
  };
  const hatch = (g, x, y, w, h, color) => {
    g.save();
    g.beginPath();
    g.rect(x, y, w, h);
    g.clip();
    g.strokeStyle = color;
    g.lineWidth = 1;
    g.beginPath();
    for (let at = x - h; at < x + w; at += 7) {
      g.moveTo(at, y + h);
      g.lineTo(at + h, y);
    }
    g.globalAlpha *= 0.55;
    g.stroke();
    g.restore();
  };

  const drawFindings = (g, scroll) => {
    data.findings.forEach((finding, index) => {
      if (finding.end < view.from || finding.begin > view.to) return;
      const x = xOf(finding.begin), w = Math.max(xOf(finding.end) - x, 3);
      const rows = finding.rows.map((i) => data.rows[i]);
      g.fillStyle = g.strokeStyle = colors.bad;
      g.globalAlpha = 0.8;
      for (const row of rows) g.fillRect(x, row.top - scroll + GAP / 2 - 1, w, row.height - GAP + 1);
      connect(g, rows, x, w, scroll);
      g.globalAlpha = 1;
      if (index === current) {
        g.lineWidth = 2;
        for (const row of rows) g.strokeRect(x - 2, row.top - scroll + 1, w + 4, row.height - 3);
      }
    });
  };

  // connect draws a faint band between the rows of a finding, or through all rows if it is about none.
  const connect = (g, rows, x, w, scroll) => {
    if (rows.length === 1) return;
    const top = rows.length ? Math.min(...rows.map((row) => row.top - scroll)) : AXIS;
    const end = rows.length ? Math.max(...rows.map((row) => row.top + row.height - scroll)) : height;
    g.globalAlpha = 0.1;
    g.fillRect(x, top, w, end - top);
    g.globalAlpha = 0.6;
    g.fillRect(x, top, 1, end - top);
    g.fillRect(x + w - 1, top, 1, end - top);
  };

  // drawFlags marks in the axis where findings are: most are too short to be seen in the whole run.
  const drawFlags = (g) => {
    g.fillStyle = colors.bad;
    g.beginPath();
    for (const finding of data.findings) {
      const x = xOf((finding.begin + finding.end) / 2);
      g.moveTo(x - 5, AXIS - 10);
      g.lineTo(x + 5, AXIS - 10);
      g.lineTo(x, AXIS - 1);
      g.closePath();
    }
    g.fill();
  };

  const drawChosen = (g, scroll) => {
    const { row, mark } = chosen;
    g.strokeStyle = colors.text;
    g.lineWidth = 2;
    if (mark) {
      const x = xOf(mark.b);
      g.strokeRect(x - 2, row.top - scroll + 1, Math.max(xOf(mark.e) - x, 2) + 4, row.height - 3);
    } else {
      g.strokeRect(gutter + 1, row.top - scroll + 1, width - gutter - 2, row.height - 2);
    }
  };

  const drawNames = (g, visible, scroll) => {
    g.save();
    g.beginPath();
    g.rect(0, AXIS, gutter, height - AXIS);
    g.clip();
    for (const row of visible) {
      g.fillStyle = chosen?.row === row ? colors.link : colors.text;
      g.fillText(clip(g, row.name, gutter - 12), 8, row.top - scroll + row.height / 2);
    }
    g.restore();
    g.fillStyle = colors.muted;
    g.fillText(clip(g, "worker", gutter - 12), 8, 12);
    g.fillStyle = colors.line;
    g.fillRect(gutter - 1, 0, 1, height);
    g.fillRect(0, AXIS - 1, width, 1);
  };

  // The overview shows faults and findings of the whole run, and which part of it is in view.
  const drawOverview = () => {
    const g = overviewContext, x = (t) => gutter + t / data.end * (width - gutter);
    g.globalAlpha = 1;
    g.fillStyle = colors.stripe;
    g.fillRect(0, 0, overview.clientWidth, 28);
    g.fillStyle = colors.muted;
    g.fillText(clip(g, "whole run", gutter - 12), 8, 14);
    g.globalAlpha = 0.3;
    g.fillStyle = colors.fault;
    for (const f of data.faults) g.fillRect(x(f.begin), 0, Math.max(x(f.end) - x(f.begin), 1), 28);
    g.globalAlpha = 1;
    g.fillStyle = colors.bad;
    for (const f of data.findings) g.fillRect(x(f.begin), 0, Math.max(x(f.end) - x(f.begin), 2), 28);
    g.globalAlpha = 0.18;
    g.fillStyle = colors.link;
    g.fillRect(x(view.from), 0, Math.max(x(view.to) - x(view.from), 2), 28);
    g.globalAlpha = 1;
    g.strokeStyle = colors.link;
    g.lineWidth = 2;
    g.strokeRect(x(view.from) + 1, 1, Math.max(x(view.to) - x(view.from) - 2, 2), 26);
  };

  // ---- details

  const show = (lines, x, y) => {
    tip.textContent = lines.join("\n");
    tip.hidden = false;
    const below = y + 18 + tip.offsetHeight < height;
    tip.style.left = Math.max(4, Math.min(x + 14, width - tip.offsetWidth - 6)) + "px";
    tip.style.top = scroller.scrollTop + (below ? y + 18 : Math.max(2, y - tip.offsetHeight - 10)) + "px";
  };
  const hide = () => { tip.hidden = true; };

  const rowAt = (y) => {
    const at = y + scroller.scrollTop;
    return y < AXIS ? undefined : data.rows.find((row) => at >= row.top && at < row.top + row.height);
  };
  // markAt finds what is drawn at a place: of many, the shortest.
  const markAt = (row, x, y) => {
    const lane = Math.floor((y + scroller.scrollTop - row.top - GAP / 2) / LANE);
    const near = row.marks.filter((m) => xOf(m.b) - NEAR <= x && x <= xOf(m.e) + NEAR &&
      ((m.l ?? 0) < 0 || (m.l ?? 0) === Math.min(Math.max(lane, 0), row.lanes - 1)));
    const inside = near.filter((m) => m.b === m.e || (xOf(m.b) <= x && x <= xOf(m.e)));
    return (inside.length ? inside : near).sort((a, b) => (a.e - a.b) - (b.e - b.b))[0];
  };

  const hover = (x, y) => {
    const row = rowAt(y), t = tOf(x), slack = NEAR / scale();
    if (x < gutter) return row ? show([row.name], x, y) : hide();
    const mark = row && markAt(row, x, y);
    const lines = mark ? describe(row, mark) : row ? [row.name, "at " + time(Math.round(t))] : [];
    if (row) lines.push(...violationsAt(row.index, t - slack, t + slack));
    lines.push(...faultsAt(t - slack, t + slack));
    return lines.length ? show(lines, x, y) : hide();
  };

  // choose is hovering by keyboard.
  const choose = (row, mark) => {
    chosen = { row, mark };
    scrollTo(row);
    if (mark && (mark.b < view.from || mark.e > view.to)) {
      const length = Math.max(view.to - view.from, (mark.e - mark.b) * 1.2), middle = (mark.b + mark.e) / 2;
      look(middle - length / 2, middle + length / 2);
    }
    const lines = mark ? describe(row, mark) : [row.name, `${row.marks.length} spans`];
    if (mark) lines.push(...violationsAt(row.index, mark.b, mark.e), ...faultsAt(mark.b, mark.e));
    show(lines, mark ? Math.max(xOf(mark.b), gutter) : gutter, row.top - scroller.scrollTop + row.height - 14);
    redraw();
  };
  const chooseRow = (by) => {
    if (!data.rows.length) return;
    const at = chosen ? chosen.row.index + by : by > 0 ? 0 : data.rows.length - 1;
    choose(data.rows[Math.min(Math.max(at, 0), data.rows.length - 1)]);
  };
  const chooseMark = (by) => {
    const row = chosen?.row ?? data.rows[0];
    if (!row?.marks.length) return;
    const first = row.marks.findIndex((m) => m.e >= view.from);
    const at = chosen?.mark ? row.marks.indexOf(chosen.mark) + by : Math.max(first, 0);
    choose(row, row.marks[Math.min(Math.max(at, 0), row.marks.length - 1)]);
  };
  const scrollTo = (row) => {
    const top = row.top - AXIS, end = row.top + row.height - height;
    if (scroller.scrollTop > top) scroller.scrollTop = top;
    else if (scroller.scrollTop < end) scroller.scrollTop = end + GAP;
  };

  // jump shows a finding, counted from 0.
  const jump = (index) => {
    const finding = data.findings[index];
    if (!finding) return;
    current = index;
    chosen = null;
    const around = Math.max((finding.end - finding.begin) * 2, data.end / 200);
    look(finding.begin - around, finding.end + around);
    finding.rows.toReversed().forEach((i) => scrollTo(data.rows[i]));
    document.querySelector("tr.current")?.classList.remove("current");
    $("violation-" + (index + 1))?.classList.add("current");
    const row = data.rows[finding.rows[0]];
    const names = finding.rows.map((i) => data.rows[i].name).join(" and ");
    show([`violation ${index + 1}: ${finding.resource}`, finding.text, names], xOf(finding.end),
      (row ? row.top - scroller.scrollTop + row.height : AXIS) - 14);
  };
  const jumpBy = (by) => {
    const n = data.findings.length;
    if (n) jump(current < 0 ? (by > 0 ? 0 : n - 1) : (current + by + n) % n);
  };
  const jumpToHash = () => {
    const match = /^#violation-(\d+)$/.exec(location.hash);
    if (!match) return;
    jump(Number(match[1]) - 1);
    $("timeline-title").scrollIntoView();
  };

  // ---- keys, mouse and fingers

  const keys = {
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => look(0, data.end),
    Home: () => look(0, view.to - view.from), End: () => look(data.end - (view.to - view.from), data.end),
    ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), ArrowUp: () => chooseRow(-1), ArrowDown: () => chooseRow(1),
    ",": () => chooseMark(-1), ".": () => chooseMark(1), n: () => jumpBy(1), p: () => jumpBy(-1),
    Escape: () => { chosen = null; current = -1; hide(); redraw(); },
  };
  chart.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  for (const button of document.querySelectorAll("button[data-key]")) {
    button.addEventListener("click", () => keys[button.dataset.key]());
  }
  chart.addEventListener("wheel", (event) => {
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!sideways && !event.ctrlKey && document.activeElement !== chart) return; // the page scrolls
    event.preventDefault();
    hide();
    if (sideways) move(Math.sign(event.deltaX || event.deltaY) * 0.1);
    else zoom(event.deltaY > 0 ? 1.25 : 0.8, tOf(event.offsetX));
  }, { passive: false });
  chart.addEventListener("dblclick", () => look(0, data.end));

  const fingers = new Map();
  let pinch = null; // how far apart two fingers were, and the time between them
  chart.addEventListener("pointerdown", (event) => {
    chart.focus({ preventScroll: true });
    if (event.pointerType === "mouse") {
      if (event.button !== 0 || event.offsetX < gutter) return;
      marked = [event.offsetX, event.offsetX];
      chart.setPointerCapture(event.pointerId);
      return;
    }
    fingers.set(event.pointerId, event.offsetX);
    hover(event.offsetX, event.offsetY);
  });
  chart.addEventListener("pointermove", (event) => {
    if (marked) {
      marked[1] = event.offsetX;
      hide();
      redraw();
    } else if (event.pointerType === "mouse") {
      hover(event.offsetX, event.offsetY);
    } else if (fingers.has(event.pointerId)) {
      drag(event);
    }
  });
  const drag = (event) => {
    const before = fingers.get(event.pointerId);
    fingers.set(event.pointerId, event.offsetX);
    if (fingers.size === 1) {
      pinch = null;
      if (before !== event.offsetX) hide();
      const by = (before - event.offsetX) / scale();
      look(view.from + by, view.to + by);
      return;
    }
    const [a, b] = fingers.values(), apart = Math.max(Math.abs(a - b), 10);
    if (pinch) zoom(pinch / apart, tOf((a + b) / 2));
    pinch = apart;
    hide();
  };
  const lift = (event) => {
    fingers.delete(event.pointerId);
    pinch = null;
    if (!marked) return;
    const [a, b] = marked.map((x) => Math.max(x, gutter)).sort((a, b) => a - b);
    marked = null;
    if (event.type === "pointerup" && b - a > 5) look(tOf(a), tOf(b));
    redraw();
  };
  chart.addEventListener("pointerup", lift);
  chart.addEventListener("pointercancel", lift);
  chart.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
  chart.addEventListener("blur", hide);

  const centre = (event) => {
    const at = (event.offsetX - gutter) / (width - gutter) * data.end, half = (view.to - view.from) / 2;
    look(at - half, at + half);
  };
  overview.addEventListener("pointerdown", (event) => {
    overview.setPointerCapture(event.pointerId);
    centre(event);
  });
  overview.addEventListener("pointermove", (event) => { if (event.buttons) centre(event); });

  scroller.addEventListener("scroll", () => redraw());
  picker?.addEventListener("change", redraw);
  for (const link of document.querySelectorAll("a[data-finding]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      jump(Number(link.dataset.finding) - 1);
      $("timeline-title").scrollIntoView({ block: "start" });
      chart.focus({ preventScroll: true });
    });
  }
  window.addEventListener("hashchange", jumpToHash);
  window.addEventListener("resize", resize);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColors(); redraw(); });

  readColors();
  resize();
  look(0, data.end);
  jumpToHash();
})();
