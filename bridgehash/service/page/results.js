// One column: the nearest items in a catalogue, and their codes next to that of the query.

import { pattern } from "./bits.js";
import { counted, el } from "./dom.js";
import { ListBox } from "./listbox.js";
import { codesTitle, itemText } from "./names.js";
import { idOf, labelOf, tagsText, thumbnail } from "./tiles.js";

const REJECTED = "Nothing like this in the catalogue: these are the nearest all the same.";

export class Column {
  #api;
  #place; // "a" or "b"
  #on;
  #parts;
  #listbox;
  #catalogue = null;
  #query = null; // {code, item, rejected}; item may be null
  #hits = [];
  #other = null; // {name, ids}: the other way to rank, and what it finds
  #selected = null; // id
  #focused = null; // id

  // on.select(place, id or null), on.focus(place, id or null), on.leave(), on.search(domain, id)
  constructor(api, place, on) {
    this.#api = api;
    this.#place = place;
    this.#on = on;
    this.#parts = {
      title: el("h3", { id: `title-${place}` }),
      info: el("p", { class: "soft small" }),
      score: el("p", { class: "score" }),
      codes: el("div", { class: "codes" }),
      rejected: el("p", { class: "rejected", role: "status" }),
      changes: el("p", { class: "changes small" }),
      list: el("div", { class: "hits", role: "listbox", "aria-labelledby": `title-${place}` }),
      message: el("p", { class: "message" }),
    };
    const { title, info, score, codes, rejected, changes, list, message } = this.#parts;
    this.root = el(
      "section",
      { class: `column column-${place}`, "aria-labelledby": `title-${place}`, hidden: true },
      el("div", { class: "column-head" }, el("div", {}, title, info), score),
      rejected,
      codes,
      changes,
      list,
      message,
    );
    this.#listbox = new ListBox(list, {
      focus: (option) => this.#focus(option),
      pick: (option) => this.#toggle(idOf(option)),
      leave: () => (this.#selected === null ? on.leave() : this.#toggle(null)),
    });
  }

  get ids() {
    return this.#hits.map((hit) => hit.id);
  }

  name(catalogue) {
    this.#catalogue = catalogue;
    const { title, info } = this.#parts;
    title.textContent = codesTitle(catalogue);
    const bytes = counted(Math.ceil(catalogue.n_bits / 8), "byte");
    info.textContent = `${catalogue.name}, ${counted(catalogue.n_bits, "bit")} (${bytes})`;
  }

  wait() {
    this.root.setAttribute("aria-busy", "true");
    const { list, message } = this.#parts;
    message.textContent = "";
    if (!list.childElementCount) {
      const empty = () => el("span", { class: "tile empty", role: "presentation" });
      list.replaceChildren(...Array.from({ length: 8 }, empty));
    }
  }

  // Show a message instead of items.
  clear(text) {
    this.root.setAttribute("aria-busy", "false");
    this.#hits = [];
    this.#query = this.#other = null;
    this.#selected = this.#focused = null;
    const { list, codes, score, message } = this.#parts;
    for (const part of [list, codes]) part.replaceChildren();
    score.textContent = this.#parts.changes.textContent = this.#parts.rejected.textContent = "";
    message.textContent = text;
  }

  // Show results; returns a summary for screen readers.
  show(query, hits, other = null) {
    const focused = this.root.contains(document.activeElement);
    this.clear(hits.length ? "" : "No results: no item has this tag.");
    this.#query = query;
    this.#hits = hits;
    this.#other = other;
    this.#parts.changes.textContent = this.#changes();
    if (query.rejected && hits.length) this.#parts.rejected.textContent = REJECTED;
    this.#parts.list.replaceChildren(...hits.map((hit, i) => this.#option(hit, i)));
    this.#listbox.reset();
    this.#parts.score.replaceChildren(...this.#score());
    this.#compare(null);
    if (focused) this.#listbox.focus();
    return this.#summary();
  }

  select(id) {
    this.#selected = this.ids.includes(id) ? id : null;
    for (const option of this.#listbox.options) {
      option.setAttribute("aria-selected", idOf(option) === this.#selected);
    }
    this.#compare(this.#focused ?? this.#selected);
  }

  // Highlight the item that is focused in the other column.
  highlight(id) {
    for (const option of this.#listbox.options) {
      option.classList.toggle("counterpart", idOf(option) === id);
    }
  }

  #toggle(id) {
    this.#on.select(this.#place, id === this.#selected ? null : id);
  }

  #focus(option) {
    const id = option ? idOf(option) : null;
    if (id === this.#focused) return;
    this.#focused = id;
    this.#compare(id ?? this.#selected);
    this.#on.focus(this.#place, id);
  }

  #isRelevant(hit) {
    const { item } = this.#query;
    if (!item?.tags.length || !hit.tags.length || this.#isQuery(hit)) return null;
    return tagsText(hit) === tagsText(item); // tags are sorted
  }

  #isQuery(hit) {
    const { item } = this.#query;
    return item?.from === this.#catalogue.index_domain && item.id === hit.id;
  }

  // Whether the other way to rank does not find an item.
  #isExtra(hit) {
    return this.#other !== null && !this.#other.ids.includes(hit.id);
  }

  // What the other way to rank would change, in words.
  #changes() {
    if (!this.#other || !this.#hits.length) return "";
    const { name, ids } = this.#other;
    const extra = this.#hits.filter((hit) => this.#isExtra(hit)).length;
    if (extra) {
      const shared = `${this.#hits.length - extra} of these ${counted(this.#hits.length, "item")}`;
      return `Ranking by ${name} also finds ${shared}. A plus marks the others.`;
    }
    const same = this.ids.every((id, i) => id === ids[i]);
    return `Ranking by ${name} finds the same items, in ${same ? "the same" : "another"} order.`;
  }

  #option(hit, i) {
    const { n_bits: nBits } = this.#catalogue;
    const extra = this.#isExtra(hit);
    const right = this.#isRelevant(hit);
    const bar = el("span", { class: "bar" }, el("span", { class: "length" }));
    bar.firstChild.style.setProperty("--length", Math.min(1, (2 * hit.distance) / nBits));
    const words = this.#isQuery(hit) ? "the query" : labelOf(hit);
    const verdict = { true: ", same tag", false: ", different tag" }[right] ?? "";
    const mark = { true: "✓", false: "✗" }[right] ?? "";
    return el(
      "div",
      {
        class: `tile hit ${{ true: "right", false: "wrong" }[right] ?? ""}${extra ? " extra" : ""}`,
        role: "option",
        tabindex: -1,
        "data-id": JSON.stringify(hit.id),
        "aria-selected": "false",
        "aria-label": `${i + 1}: ${words}, ${hit.distance} of ${counted(nBits, "bit")} differ${verdict}${extra ? `, not found by ${this.#other.name}` : ""}`,
      },
      thumbnail(this.#api, hit, nBits),
      el("span", { class: "line" }, bar, el("span", { class: "distance" }, String(hit.distance))),
      el(
        "span",
        { class: "caption" },
        mark ? el("span", { class: "mark" }, mark) : null,
        this.#isQuery(hit) ? "the query" : tagsText(hit) || itemText(hit.domain, hit.id),
      ),
      tagsText(hit) ? el("span", { class: "origin" }, itemText(hit.domain, hit.id)) : null,
    );
  }

  #score() {
    const judged = this.#hits.map((hit) => this.#isRelevant(hit)).filter((right) => right !== null);
    if (!judged.length) return [];
    const n = judged.filter(Boolean).length;
    const words = ` of ${judged.length} tagged ${tagsText(this.#query.item)}`;
    return [el("strong", {}, String(n)), words];
  }

  #summary() {
    const { name, n_bits: nBits } = this.#catalogue;
    if (!this.#hits.length) return `${name}: no results.`;
    const [nearest] = this.#hits;
    const score = this.#parts.score.textContent;
    const words = this.#isQuery(nearest) ? "the query" : labelOf(nearest);
    return (
      `${name}: ${counted(this.#hits.length, "item")} found` +
      (score ? `, ${score}` : "") +
      `; nearest is ${words}, with ${nearest.distance} of ${counted(nBits, "bit")} different.` +
      (this.#other ? ` ${this.#parts.changes.textContent}` : "")
    );
  }

  // Draw the code of the query, and that of an item next to it.
  #compare(id) {
    if (!this.#query) return;
    const hit = this.#hits.find((each) => each.id === id);
    const { n_bits: nBits, index_domain: domain } = this.#catalogue;
    const { code } = this.#query;
    const drawn = (name, hex, other) =>
      el("figure", {}, pattern(hex, nBits, other), el("figcaption", {}, name));
    const words = hit
      ? [
          el("strong", {}, `${hit.distance} of ${nBits} bits differ`),
          el("span", { class: "soft" }, this.#isQuery(hit) ? "the query" : labelOf(hit)),
          hit.score === undefined ? null : el("span", { class: "soft" }, `score ${hit.score.toPrecision(3)}`),
          this.#selected === hit.id
            ? el("button", { type: "button", onclick: () => this.#on.search(domain, hit.id) }, "Search with this item")
            : null,
        ]
      : [el("span", { class: "soft" }, `The query: ${counted(nBits, "bit")}`)];
    this.#parts.codes.replaceChildren(
      drawn("query", code, hit?.code ?? null),
      ...(hit ? [drawn("item", hit.code, code)] : []),
      el("p", { class: "difference" }, ...words),
    );
  }
}
