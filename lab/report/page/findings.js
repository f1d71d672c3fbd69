// Violations in the timeline.

const drawFindings = (g, scroll) => {
  data.findings.forEach((finding, index) => {
    if (finding.end < view.from || finding.begin > view.to) return;
    const x = xOf(finding.begin), w = Math.max(xOf(finding.end) - x, 3);
    const rows = finding.rows.map((i) => data.rows[i]);
    g.fillStyle = g.strokeStyle = colors.bad;
    g.globalAlpha = finding.overlap ? 0.8 : 0.15;
    for (const row of rows) g.fillRect(x, row.top - scroll + GAP / 2 - 1, w, row.height - GAP + 1);
    g.globalAlpha = 1;
    g.lineWidth = 1;
    for (const row of rows) g.strokeRect(x + 0.5, row.top - scroll + GAP / 2 - 0.5, w - 1, row.height - GAP);
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
