// The one dialog of the page. The browser keeps the focus inside it, and closes it by Escape.
import { byID, el } from "./dom.js";

export const openDialog = (title, content, buttons = [], kind = "") => {
  const dialog = byID("dialog");
  const close = el("button", { type: "button", onclick: () => dialog.close() }, buttons.length ? "Cancel" : "Close");
  dialog.className = `dialog ${kind}`;
  dialog.replaceChildren(
    el("h2", { id: "dialog-title" }, title), el("div", { class: "dialog-content" }, content),
    el("div", { class: "dialog-buttons" }, close, buttons),
  );
  if (!dialog.open) dialog.showModal();
  return dialog;
};

export const closeDialog = () => byID("dialog").close();
