// The query itself: its picture, or its code, and what is known of it.

import { pattern } from "./bits.js";
import { el } from "./dom.js";
import { face } from "./tiles.js";

let preview = ""; // address of a picture from outside, while it is shown

export function showQuery(root, api, facts, item, query, file) {
  if (preview) URL.revokeObjectURL(preview);
  preview = "";
  const words = [];
  let shown;
  if (item) {
    shown = face(api, item, facts.n_bits);
    const where = item.domain === "any" ? "" : ` of the ${item.domain} domain`;
    words.push(el("strong", {}, item.tag || "an item without a tag"));
    words.push(el("span", { class: "soft" }, `item ${item.id}${where}`));
  } else if (file) {
    preview = URL.createObjectURL(file);
    shown = el("span", { class: "face loaded" }, el("img", { src: preview, alt: "" }));
    words.push(el("strong", {}, file.name || "your picture"));
    words.push(el("span", { class: "soft" }, "a picture of yours"));
  } else {
    shown = el("span", { class: "face" }, pattern(query.codes[facts.name] ?? "", facts.n_bits));
    words.push(el("strong", {}, "a code"));
    words.push(el("span", { class: "soft" }, "of a picture that is not kept"));
  }
  root.replaceChildren(shown, el("p", {}, el("span", { class: "soft" }, "You ask with"), ...words));
  document.title = `${words[0].textContent} · ${facts.name} · bridgehash`;
}
