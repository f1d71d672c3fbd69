// The timeline, and the overview above it.

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
      if (row.process === fault.target || row.name === fault.target) g.fillRect(x, row.top - scroll, w, row.height);
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
