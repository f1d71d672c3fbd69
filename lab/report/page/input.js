// Keys, mouse and fingers.

const keys = {
  "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => look(0, data.end),
  Home: () => look(0, view.to - view.from), End: () => look(data.end - (view.to - view.from), data.end),
  ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2),
  ArrowUp: () => chooseRow(-1), ArrowDown: () => chooseRow(1), ",": () => chooseMark(-1), ".": () => chooseMark(1),
  n: () => jumpBy(1), p: () => jumpBy(-1),
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
    $("timeline-title").scrollIntoView();
    chart.focus({ preventScroll: true });
    jump(Number(link.dataset.finding) - 1);
  });
}
window.addEventListener("hashchange", jumpToHash);
window.addEventListener("resize", resize);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColors(); redraw(); });

readColors();
resize();
look(0, data.end);
jumpToHash();
