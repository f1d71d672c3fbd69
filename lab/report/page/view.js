// The run, and which part of it is in view. Times are nanoseconds since its beginning.
"use strict";

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

// From time to pixels and back.
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
