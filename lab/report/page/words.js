// What is said about spans, faults and violations.

const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const number = (n) => String(Number(n.toFixed(3)));
const time = (ns) => {
  if (ns === 0) return "0s";
  const [size, unit] = units.find(([size]) => Math.abs(ns) >= size) ?? units[3];
  return number(ns / size) + unit;
};

// short is a name of a resource where there is little room.
const short = (name = "") => name.slice(data.prefix.length);

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
