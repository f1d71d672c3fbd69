// The spans of a row. Each state has its own form, so that it can be told without colours.

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
    const text = clip(g, mark.t ? `${short(mark.r)} · ${mark.t}` : short(mark.r), x + w - from - 4);
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
