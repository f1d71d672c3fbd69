// Text for people. Nothing here touches the page.

// The difference between the handler's clock and the browser's.
let ahead = 0;
export const setClock = (now) => { ahead = now - Date.now(); };
export const now = () => Date.now() + ahead;

// duration writes milliseconds, as in 840 ms, 12 s, 3 min 5 s, 2 h 10 min, 4 d 3 h.
export const duration = (ms) => {
  if (ms < 0) return "0 s";
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return s % 60 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${s / 60} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
};

// since writes how long ago a moment was, or a dash if it is unknown.
export const since = (ms) => (ms ? duration(now() - ms) : "–");

// left writes how long a claim lasts if it is not renewed.
export const left = (until) => {
  if (!until) return "–";
  const ms = until - now();
  if (ms <= 0) return "overdue";
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms);
};

export const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });

export const moment = (ms) => (ms ? new Date(ms).toLocaleString([], { hour12: false }) : "unknown");

// Characters that cannot be seen or that reorder others, except for the joiner inside emoji.
const hidden = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}\ufffd]/gu;

// visible writes a name or label so that no character of it hides.
export const visible = (text) => String(text).replace(hidden, (c) =>
  c === "\u200d" ? c : `\\u{${c.codePointAt(0).toString(16)}}`);

// labelOf writes an owner's label, or what comes closest.
export const labelOf = (owner) => visible(owner?.label || owner?.id || owner?.host || owner?.address || "unknown holder");

// hostOf writes an owner's host and process, unless labelOf has.
export const hostOf = (owner) => {
  if (!owner) return "";
  const host = owner.host || owner.address || "";
  const parts = [];
  if (host && host !== (owner.label || owner.id || host)) parts.push(visible(host));
  if (owner.pid) parts.push(`pid ${owner.pid}`);
  return parts.join(" · ");
};

export const plural = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
