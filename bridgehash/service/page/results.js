// One column: the items that a catalogue finds for a query, and their codes beside the query's.

import { pattern } from "./bits.js";
import { counted, el } from "./dom.js";
import { Roving } from "./roving.js";
import { face, named } from "./tiles.js";

export class Column {
  #api;
  #place; // "a" or "b"
  #on;
  #parts;
  #roving;
  #catalogue = null;
  #query = null; // code, and the item if there is one
  #hits = [];
  #held = null; // id
  #pointed = null; // id

  // on.hold(place, id or null), on.point(place, id or null), on.leave(), on.ask(domain, id)
  constructor(api, place, on) {
    this.#api = api;
    this.#place = place;
    this.#on = on;
    this.#parts = {
      title: el("h3", { id: `title-${place}` }),
      facts: el("p", { class: "soft small" }),
      score: el("p", { class: "score" }),
      codes: el("div", { class: "codes" }),
      list: el("div", { class: "hits", role: "listbox", "aria-labelledby": `title-${place}` }),
      message: el("p", { class: "message" }),
    };
    const { title, facts, score, codes, list, message } = this.#parts;
    this.root = el(
      "section",
      { class: `column column-${place}`, "aria-labelledby": `title-${place}`, hidden: true },
      el("div", { class: "column-head" }, el("div", {}, title, facts), score),
      codes,
      list,
      message,
    );
    this.#roving = new Roving(list, {
      focus: (option) => this.#point(option),
      pick: (option) => this.#hold(Number(option.dataset.id)),
      leave: () => (this.#held === null ? on.leave() : this.#hold(null)),
    });
  }

  get ids() {
    return this.#hits.map((hit) => hit.id);
  }

  name(catalogue) {
    this.#catalogue = catalogue;
    const { title, facts } = this.#parts;
    title.textContent = catalogue.name;
    const bytes = counted(Math.ceil(catalogue.n_bits / 8), "byte");
    facts.textContent = `${catalogue.method}, ${counted(catalogue.n_bits, "bit")} (${bytes})`;
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

  // Instead of items: why there are none.
  clear(text) {
    this.root.setAttribute("aria-busy", "false");
    this.#hits = [];
    this.#query = null;
    this.#held = this.#pointed = null;
    const { list, codes, score, message } = this.#parts;
    for (const part of [list, codes]) part.replaceChildren();
    score.textContent = "";
    message.textContent = text;
  }

  // query: {code, item}, where the item may be null; returns a sentence about what was found.
  show(query, hits) {
    const focused = this.root.contains(document.activeElement);
    this.clear(hits.length ? "" : "Nothing is found: no item has this tag.");
    this.#query = query;
    this.#hits = hits;
    this.#parts.list.replaceChildren(...hits.map((hit, i) => this.#option(hit, i)));
    this.#roving.reset();
    this.#parts.score.replaceChildren(...this.#score());
    this.#compare(null);
    if (focused) this.#roving.focus();
    return this.#sentence();
  }

  hold(id) {
    this.#held = this.ids.includes(id) ? id : null;
    for (const option of this.#roving.options) {
      option.setAttribute("aria-selected", Number(option.dataset.id) === this.#held);
    }
    this.#compare(this.#pointed ?? this.#held);
  }

  // Mark the item that is pointed at in the other column.
  twin(id) {
    for (const option of this.#roving.options) {
      option.classList.toggle("twin", Number(option.dataset.id) === id);
    }
  }

  #hold(id) {
    this.#on.hold(this.#place, id === this.#held ? null : id);
  }

  #point(option) {
    const id = option ? Number(option.dataset.id) : null;
    if (id === this.#pointed) return;
    this.#pointed = id;
    this.#compare(id ?? this.#held);
    this.#on.point(this.#place, id);
  }

  #isRight(hit) {
    const tag = this.#query.item?.tag;
    return tag && hit.tag && !this.#isItself(hit) ? hit.tag === tag : null;
  }

  #isItself(hit) {
    const { item } = this.#query;
    return item?.domain === this.#catalogue.index_domain && item.id === hit.id;
  }

  #option(hit, i) {
    const { n_bits: nBits } = this.#catalogue;
    const right = this.#isRight(hit);
    const bar = el("span", { class: "bar" }, el("span", { class: "length" }));
    bar.firstChild.style.setProperty("--length", Math.min(1, (2 * hit.distance) / nBits));
    const words = this.#isItself(hit) ? "the query itself" : named(hit);
    const judged = { true: ", the same tag", false: ", another tag" }[right] ?? "";
    const mark = { true: "✓", false: "✗" }[right] ?? "";
    return el(
      "div",
      {
        class: `tile hit ${{ true: "right", false: "wrong" }[right] ?? ""}`,
        role: "option",
        tabindex: -1,
        "data-id": hit.id,
        "aria-selected": "false",
        "aria-label": `${i + 1}: ${words}, ${hit.distance} of ${counted(nBits, "bit")} differ${judged}`,
      },
      face(this.#api, hit, nBits),
      el("span", { class: "line" }, bar, el("span", { class: "distance" }, String(hit.distance))),
      el(
        "span",
        { class: "caption" },
        mark ? el("span", { class: "mark" }, mark) : null,
        this.#isItself(hit) ? "itself" : hit.tag || `item ${hit.id}`,
      ),
    );
  }

  #score() {
    const judged = this.#hits.map((hit) => this.#isRight(hit)).filter((right) => right !== null);
    if (!judged.length) return [];
    const n = judged.filter(Boolean).length;
    const words = ` of ${judged.length} tagged ${this.#query.item.tag}`;
    return [el("strong", {}, String(n)), words];
  }

  #sentence() {
    const { name, n_bits: nBits } = this.#catalogue;
    if (!this.#hits.length) return `${name}: nothing is found.`;
    const [nearest] = this.#hits;
    const score = this.#parts.score.textContent;
    const words = this.#isItself(nearest) ? "the query itself" : named(nearest);
    return (
      `${name}: ${counted(this.#hits.length, "item")} found` +
      (score ? `, ${score}` : "") +
      `; nearest is ${words}, with ${nearest.distance} of ${counted(nBits, "bit")} different.`
    );
  }

  // The code of the query, beside that of the item where there is one.
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
          el("span", { class: "soft" }, this.#isItself(hit) ? "the query itself" : named(hit)),
          this.#held === hit.id
            ? el("button", { type: "button", onclick: () => this.#on.ask(domain, hit.id) }, "Ask with it")
            : null,
        ]
      : [el("span", { class: "soft" }, `The query as ${counted(nBits, "bit")}`)];
    this.#parts.codes.replaceChildren(
      drawn("query", code, hit?.code ?? null),
      ...(hit ? [drawn("item", hit.code, code)] : []),
      el("p", { class: "difference" }, ...words),
    );
  }
}
