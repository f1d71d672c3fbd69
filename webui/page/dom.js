// Making elements. All text goes in as text.

const fill = (node, props, children) => {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "data") Object.assign(node.dataset, value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) node.append(child);
  }
  return node;
};

export const el = (tag, props, ...children) => fill(document.createElement(tag), props, children);

export const svg = (tag, props, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);

export const byID = (id) => document.getElementById(id);

// setText changes a text only if it differs, so that nothing is drawn anew for nothing.
export const setText = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};
