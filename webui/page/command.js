// Commands to copy.
import { byID, el } from "./dom.js";
import { openDialog } from "./dialog.js";
import { visible } from "./format.js";

let storeURL = "";
export const setStore = (url) => { storeURL = url; };

// quote writes a word for a POSIX shell. Control characters are written as bash, zsh and ksh read them in $'…'.
export const quote = (word) => {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (!/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(word)) return `'${word.replaceAll("'", `'\\''`)}'`;
  let text = "";
  for (const c of word) {
    if (c === "'" || c === "\\") text += `\\${c}`;
    else if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(c)) {
      for (const byte of new TextEncoder().encode(c)) text += `\\x${byte.toString(16).padStart(2, "0")}`;
    } else text += c;
  }
  return `$'${text}'`;
};

const command = (verb, name, flags) => {
  const words = ["holdfast", verb];
  const option = [...flags, ...(storeURL ? ["--store", storeURL] : [])].map(quote);
  if (name.startsWith("-")) words.push(...option, "--", quote(name));
  else words.push(quote(name), ...option);
  return words.join(" ");
};

export const showCommand = (name) => command("show", name, []);
export const breakCommand = (name, token) => command("break", name, ["--token", token]);

let fading;
const toast = (text) => {
  const node = byID("toast");
  node.textContent = text;
  node.classList.add("shown");
  clearTimeout(fading);
  fading = setTimeout(() => { node.classList.remove("shown"); node.textContent = ""; }, 3000);
};

// copy puts a command into the clipboard. Where the browser does not allow that, it shows the command.
export const copy = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    toast(`Copied: ${text.length > 80 ? `${text.slice(0, 80)}…` : text}`);
  } catch {
    const field = el("textarea", { readonly: true, rows: 3, "aria-label": "Command" });
    field.value = text;
    openDialog("Copy as command", [el("p", null, "The browser does not allow this page to copy. The command is:"), field]);
    field.select();
  }
};

const copyIcon = () => el("span", { class: "copy-icon", "aria-hidden": "true" });

// copyButton copies a command. Its label says what the command is about.
export const copyButton = (label, text, word = "") => el("button", {
  type: "button", class: word ? "copy" : "copy icon", title: visible(text), "aria-label": `Copy as command: ${visible(label)}`,
  data: { key: `copy ${text}` },
  onclick: (event) => { event.stopPropagation(); copy(text); },
}, copyIcon(), word);
