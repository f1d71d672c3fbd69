// The two canvases: their size, their colours, and when they are drawn.

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
