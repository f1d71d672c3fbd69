// Details of what the pointer is at, of what was chosen by keys, and of violations.

const show = (lines, x, y) => {
  tip.textContent = lines.join("\n");
  tip.hidden = false;
  const below = chart.getBoundingClientRect().top + y + 18 + tip.offsetHeight < window.innerHeight;
  tip.style.left = Math.max(4, Math.min(x + 14, width - tip.offsetWidth - 6)) + "px";
  tip.style.top = (below ? y + 18 : Math.max(2, y - tip.offsetHeight - 10)) + "px";
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
  reveal(row);
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
const reveal = (row) => {
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
  finding.rows.toReversed().forEach((i) => reveal(data.rows[i]));
  document.querySelector("tr.current")?.classList.remove("current");
  $("violation-" + (index + 1))?.classList.add("current");
  const ends = finding.rows.map((i) => data.rows[i].top + data.rows[i].height - scroller.scrollTop);
  const names = finding.rows.map((i) => data.rows[i].name).join(" and ");
  show([`violation ${index + 1}: ${finding.resource}`, finding.text, names], xOf(finding.end),
    Math.max(AXIS, ...ends) - 14);
};
const jumpBy = (by) => {
  const n = data.findings.length;
  if (n) jump(current < 0 ? (by > 0 ? 0 : n - 1) : (current + by + n) % n);
};
const jumpToHash = () => {
  const match = /^#violation-(\d+)$/.exec(location.hash);
  if (!match) return;
  $("timeline-title").scrollIntoView();
  jump(Number(match[1]) - 1);
};
