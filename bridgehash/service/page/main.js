// The page: state in, requests out, parts filled.

import { Api } from "./api.js";
import { others, settled, sourcesOf, tagsOf, takesPictures } from "./catalogues.js";
import { fill } from "./dom.js";
import { drawFigures, waitForFigures } from "./figures.js";
import { Gallery } from "./gallery.js";
import { Notices } from "./notices.js";
import { showQuery } from "./query.js";
import { Column } from "./results.js";
import { asking, search } from "./search.js";
import { COUNTS, NONE, readState, writeState } from "./state.js";
import { takePictures } from "./upload.js";

const part = (name) => document.getElementById(name);

class Page {
  #api = new Api();
  #notices = new Notices(this.#api, part("notice"), part("key"));
  #catalogues = [];
  #limits = { body_bytes: 0 };
  #state = null;
  #file = null; // the picture that asks
  #searching = new AbortController();
  #asked = ""; // what the columns show
  #measured = new Map(); // figures by catalogue
  #drawn = ""; // catalogues whose figures are shown
  #gallery;
  #columns;

  constructor() {
    const problem = (error) => this.#fail(error);
    const parts = { list: part("gallery"), shown: part("shown"), more: part("more") };
    this.#gallery = new Gallery(this.#api, parts, {
      pick: (domain, id) => this.#ask({ domain, id }),
      problem,
    });
    const on = {
      hold: (place, id) => this.#apply({ pin: id === null ? null : { place, id } }, "replace"),
      point: (place, id) => this.#columns[place === "a" ? "b" : "a"].twin(id),
      leave: () => this.#gallery.focus(),
      ask: (domain, id) => this.#ask({ domain, id }),
    };
    this.#columns = { a: new Column(this.#api, "a", on), b: new Column(this.#api, "b", on) };
    part("columns").append(this.#columns.a.root, this.#columns.b.root);
    this.#listen();
  }

  async load() {
    try {
      const { catalogues, limits } = await this.#api.get("/v1/catalogues");
      this.#catalogues = catalogues;
      this.#limits = limits;
    } catch (problem) {
      this.#fail(problem);
      return;
    }
    this.#notices.hide();
    this.#measured.clear();
    this.#drawn = "";
    this.#asked = "";
    await this.#apply(this.#state ?? readState(location.hash), "replace", true);
  }

  #facts(name) {
    return this.#catalogues.find((each) => each.name === name);
  }

  #listen() {
    const choose = (name, change, how = "replace") =>
      part(name).addEventListener("change", (event) => this.#apply(change(event.target.value), how));
    choose("choose-a", (a) => this.#changedCatalogue(a), "push");
    choose("choose-b", (b) => ({ b, pin: null }), "push");
    choose("choose-from", (from) => ({ from, asks: "" }));
    choose("choose-asks", (asks) => ({ asks }));
    choose("choose-tag", (tag) => ({ tag, pin: null }));
    choose("choose-k", (k) => ({ k: Number(k) }));
    part("surprise").addEventListener("click", () => this.#surprise());
    part("skip").addEventListener("click", (event) => {
      event.preventDefault();
      part("results").focus();
    });
    window.addEventListener("popstate", () => {
      if (this.#catalogues.length) this.#apply(readState(location.hash), "none");
    });
    takePictures(part("file"), {
      open: () => Boolean(this.#state && takesPictures(this.#facts(this.#state.a))),
      most: () => this.#limits.body_bytes,
      take: (file) => {
        this.#file = file;
        this.#ask({ codes: {} });
      },
      refuse: (sentence) => this.#notices.tell(sentence, "All right", () => {}),
    });
  }

  // Another catalogue keeps the query if it holds the same things.
  #changedCatalogue(a) {
    const same = others(this.#catalogues, this.#facts(this.#state.a)).includes(this.#facts(a));
    if (!same) return { a, b: "", from: "", asks: "", tag: "", query: null, pin: null };
    const b = this.#state.b === a ? this.#state.a : this.#state.b;
    return { a, b, pin: null };
  }

  #ask(query) {
    this.#apply({ query, pin: null }, "push");
  }

  async #surprise() {
    try {
      const id = await this.#gallery.random();
      if (id !== null) this.#ask({ domain: this.#state.from, id });
    } catch (problem) {
      this.#fail(problem);
    }
  }

  // Take over a change of state; how: what becomes of the address.
  async #apply(changes, how, again = false) {
    const state = settled({ ...this.#state, ...changes }, this.#catalogues);
    this.#state = state;
    this.#write(how);
    this.#fillChoices();
    const facts = this.#facts(state.a);
    const shown = this.#gallery.show(facts, state.from, state.asks, again);
    this.#measure();
    if (!state.query) {
      for (const column of Object.values(this.#columns)) column.wait();
      await shown;
      if (state !== this.#state) return;
      const first = this.#gallery.first;
      if (first === null) this.#nothing();
      else await this.#apply({ query: { domain: state.from, id: first } }, "replace");
      return;
    }
    const picked = state.query.domain === state.from ? state.query.id : null;
    this.#gallery.mark(picked);
    await this.#search();
  }

  #write(how) {
    const address = writeState(this.#state);
    if (how === "none" || address === location.hash) return;
    history[how === "push" ? "pushState" : "replaceState"](null, "", address);
  }

  #fillChoices() {
    const { a, b, from, asks, tag, k } = this.#state;
    const facts = this.#facts(a);
    const about = (each) => [each.name, `${each.name} (${each.method}, ${each.n_bits} bits)`];
    const all = (tags) => [["", "all"], ...tags.map((each) => [each, each])];
    const items = (name) => [name, `${name} (${facts.domains[name].items.toLocaleString("en")})`];
    fill(part("choose-a"), this.#catalogues.map(about), a);
    fill(part("choose-b"), [[NONE, "none"], ...others(this.#catalogues, facts).map(about)], b);
    fill(part("choose-from"), sourcesOf(facts).map(items), from);
    fill(part("choose-asks"), all(tagsOf(facts, from)), asks);
    fill(part("choose-tag"), all(tagsOf(facts, facts.index_domain)), tag);
    fill(part("choose-k"), COUNTS.map((n) => [String(n), String(n)]), String(k));
    part("drop").hidden = !takesPictures(facts);
    part("surprise").disabled = !sourcesOf(facts).length;
    const two = b !== NONE;
    this.#columns.a.root.hidden = false;
    this.#columns.b.root.hidden = !two;
    part("columns").classList.toggle("two", two);
    this.#columns.a.name(facts);
    if (two) this.#columns.b.name(this.#facts(b));
  }

  get #places() {
    const { a, b } = this.#state;
    return [["a", this.#facts(a)], ...(b === NONE ? [] : [["b", this.#facts(b)]])];
  }

  // Search with all catalogues, unless that is what is shown already.
  async #search() {
    const { a, b, query, tag, k, pin } = this.#state;
    const wanted = JSON.stringify([a, b, query, tag, k]);
    if (wanted !== this.#asked) {
      this.#searching.abort();
      this.#searching = new AbortController();
      const { signal } = this.#searching;
      this.#asked = wanted;
      const item = asking(this.#api, this.#facts(a), query, signal);
      item.catch(() => {}); // told by the columns
      const file = query.codes ? this.#file : null;
      for (const [place] of this.#places) this.#columns[place].wait();
      const told = await Promise.all(
        this.#places.map(([place, facts]) => this.#fillColumn(place, facts, item, file, signal)),
      );
      if (signal.aborted) return;
      await this.#showQuery(item, file);
      part("said").textContent = told.join(" ");
      if (this.#asked) this.#asked = JSON.stringify([a, b, query, tag, k]); // with codes found
      this.#write("replace");
    }
    for (const [place] of this.#places) {
      this.#columns[place].hold(pin?.place === place ? pin.id : null);
    }
  }

  // Returns a sentence about what was found.
  async #fillColumn(place, facts, item, file, signal) {
    const column = this.#columns[place];
    const { query, tag, k } = this.#state;
    try {
      const found = await search(this.#api, facts, query, { k, tag, file }, signal);
      const shown = await item;
      if (signal.aborted) return "";
      if (query.codes) query.codes[facts.name] = found.code;
      return column.show({ code: found.code, item: shown }, found.hits);
    } catch (problem) {
      if (problem.kind === "dropped" || signal.aborted) return "";
      const own = problem.kind === "refused";
      if (!own) this.#asked = "";
      column.clear(own ? problem.message : "There is no answer.");
      if (!own) this.#fail(problem);
      return own ? problem.message : "";
    }
  }

  async #showQuery(item, file) {
    const { a, query } = this.#state;
    try {
      showQuery(part("query"), this.#api, this.#facts(a), await item, query, file);
    } catch {
      part("query").replaceChildren(); // the columns say why
    }
  }

  #nothing() {
    const text = "Nothing to ask with: start the service with --queries, or send features.";
    for (const [place] of this.#places) this.#columns[place].clear(text);
    part("query").replaceChildren();
    part("said").textContent = text;
  }

  async #measure() {
    const root = part("figures");
    const places = this.#places;
    const names = places.map(([, facts]) => facts.name).join();
    if (names === this.#drawn) return;
    this.#drawn = names;
    waitForFigures(root);
    for (const [, facts] of places) {
      if (tagsOf(facts, facts.index_domain).length < 2) {
        this.#measured.set(facts.name, { figures: null, problem: "items need tags of two kinds" });
      }
      if (this.#measured.has(facts.name)) continue;
      try {
        const address = `/v1/catalogues/${encodeURIComponent(facts.name)}/figures`;
        this.#measured.set(facts.name, { figures: await this.#api.get(address) });
      } catch (problem) {
        if (problem.kind !== "refused") {
          this.#drawn = "";
          drawFigures(root, [{ problem: "there is no answer" }]);
          return;
        }
        this.#measured.set(facts.name, { figures: null, problem: problem.message });
      }
    }
    if (names !== this.#drawn) return;
    const shown = places.map(([place, facts]) => ({ place, facts, ...this.#measured.get(facts.name) }));
    drawFigures(root, shown);
  }

  #fail(problem) {
    if (problem.kind === "dropped") return;
    if (problem.kind === "key") {
      this.#notices.askKey(() => this.load());
      return;
    }
    const text = problem.kind === "silent" ? problem.message : `The service says: ${problem.message}.`;
    this.#notices.tell(text, "Try again", () => this.load());
    part("gallery").setAttribute("aria-busy", "false");
    if (!this.#catalogues.length) part("figures").setAttribute("aria-busy", "false");
  }
}

new Page().load();
