// The page: reads the state, sends requests and fills the parts.

import { Api } from "./api.js";
import { acceptsImages, comparable, domainsOf, tagsOf, validState } from "./catalogues.js";
import { fill } from "./dom.js";
import { acceptDrawings } from "./draw.js";
import { Gallery } from "./gallery.js";
import { catalogueText, choice, heading } from "./names.js";
import { Notices } from "./notices.js";
import { loadItem, search, showQuery } from "./query.js";
import { Column } from "./results.js";
import { drawScores, waitForScores } from "./scores.js";
import { COUNTS, NONE, readState, writeState } from "./state.js";
import { acceptUploads } from "./upload.js";

const part = (name) => document.getElementById(name);

class Page {
  #api = new Api();
  #notices = new Notices(this.#api, part("notice"), part("key"));
  #catalogues = [];
  #limits = { body_bytes: 0 };
  #state = null;
  #upload = null; // {file, codes}: the uploaded image, and its codes by catalogue
  #searching = new AbortController();
  #searched = ""; // the search whose results are shown
  #scores = new Map(); // by catalogue
  #drawn = ""; // catalogues whose scores are shown
  #gallery;
  #columns;

  constructor() {
    const problem = (error) => this.#fail(error);
    const parts = { list: part("gallery"), shown: part("shown"), more: part("more") };
    this.#gallery = new Gallery(this.#api, parts, {
      pick: (domain, id) => this.#setQuery({ domain, id }),
      problem,
    });
    const on = {
      select: (place, id) => this.#apply({ pin: id === null ? null : { place, id } }, "replace"),
      focus: (place, id) => this.#columns[place === "a" ? "b" : "a"].highlight(id),
      leave: () => this.#gallery.focus(),
      search: (domain, id) => this.#setQuery({ domain, id }),
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
    this.#scores.clear();
    this.#drawn = "";
    this.#searched = "";
    await this.#apply(this.#state ?? readState(location.hash), "replace", true);
  }

  #info(name) {
    return this.#catalogues.find((each) => each.name === name);
  }

  #listen() {
    const choose = (name, change, how = "replace") =>
      part(name).addEventListener("change", (event) => this.#apply(change(event.target.value), how));
    choose("choose-a", (a) => this.#changedCatalogue(a), "push");
    choose("choose-b", (b) => ({ b, pin: null }), "push");
    choose("choose-from", (from) => ({ from, qtag: "" }));
    choose("choose-qtag", (qtag) => ({ qtag }));
    choose("choose-tag", (tag) => ({ tag, pin: null }));
    choose("choose-k", (k) => ({ k: Number(k) }));
    choose("rank", (rank) => ({ rank }));
    part("random").addEventListener("click", () => this.#pickRandom());
    part("skip").addEventListener("click", (event) => {
      event.preventDefault();
      part("results").focus();
    });
    window.addEventListener("popstate", () => {
      if (this.#catalogues.length) this.#apply(readState(location.hash), "none");
    });
    const accept = (file) => {
      this.#upload = { file, codes: {} };
      this.#setQuery({ codes: this.#upload.codes });
    };
    acceptDrawings(
      {
        open: part("draw"),
        dialog: part("drawing"),
        form: part("drawing-form"),
        canvas: part("drawing-canvas"),
        undo: part("drawing-undo"),
        clear: part("drawing-clear"),
        cancel: part("drawing-cancel"),
      },
      accept,
    );
    acceptUploads(part("file"), {
      enabled: () => Boolean(this.#state && acceptsImages(this.#info(this.#state.a))),
      maxBytes: () => this.#limits.body_bytes,
      accept,
      reject: (message) => this.#notices.show(message, "Dismiss", () => {}),
    });
  }

  // Another catalogue keeps the query if it has the same items.
  #changedCatalogue(a) {
    const same = comparable(this.#catalogues, this.#info(this.#state.a)).includes(this.#info(a));
    if (!same) return { a, b: "", from: "", qtag: "", tag: "", query: null, pin: null };
    const b = this.#state.b === a ? this.#state.a : this.#state.b;
    return { a, b, pin: null };
  }

  #setQuery(query) {
    this.#apply({ query, pin: null }, "push");
  }

  // The uploaded image, if the query is that image; an address may have the codes of an earlier one.
  get #file() {
    const { codes } = this.#state.query ?? {};
    if (!codes || !this.#upload) return null;
    const same = Object.entries(codes).every(([name, code]) => this.#upload.codes[name] === code);
    return same ? this.#upload.file : null;
  }

  async #pickRandom() {
    try {
      const id = await this.#gallery.random();
      if (id !== null) this.#setQuery({ domain: this.#state.from, id });
    } catch (problem) {
      this.#fail(problem);
    }
  }

  // Change the state. how: "push", "replace" or "none", for the address.
  async #apply(changes, how, again = false) {
    const state = validState({ ...this.#state, ...changes }, this.#catalogues);
    this.#state = state;
    this.#write(how);
    this.#fillChoices();
    const info = this.#info(state.a);
    const shown = this.#gallery.show(info, state.from, state.qtag, again);
    this.#showScores();
    if (!state.query) {
      for (const column of Object.values(this.#columns)) column.wait();
      await shown;
      if (state !== this.#state) return;
      const first = this.#gallery.first;
      if (first === null) this.#showNothing();
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
    const { a, b, from, qtag, tag, k } = this.#state;
    const info = this.#info(a);
    const about = (each) => [each.name, catalogueText(each)];
    const all = (tags) => [["", "all"], ...tags.map((each) => [each, each])];
    part("title").textContent = heading(info);
    fill(part("choose-a"), this.#catalogues.map(about), a);
    fill(part("choose-b"), [[NONE, "none"], ...comparable(this.#catalogues, info).map(about)], b);
    fill(part("choose-from"), domainsOf(info).map((name) => [name, choice(info, name)]), from);
    fill(part("choose-qtag"), all(tagsOf(info, from)), qtag);
    fill(part("choose-tag"), all(tagsOf(info, info.index_domain)), tag);
    fill(part("choose-k"), COUNTS.map((n) => [String(n), String(n)]), String(k));
    part("drop").hidden = !acceptsImages(info);
    this.#fillRank(acceptsImages(info));
    part("random").disabled = !domainsOf(info).length;
    const two = b !== NONE;
    this.#columns.a.root.hidden = false;
    this.#columns.b.root.hidden = !two;
    part("columns").classList.toggle("two", two);
    this.#columns.a.name(info);
    if (two) this.#columns.b.name(this.#info(b));
  }

  // The switch between bits and weights; weights need the features of the query.
  #fillRank(shown) {
    const enabled = this.#file !== null;
    for (const input of part("rank").querySelectorAll("input")) {
      input.checked = input.value === (enabled ? this.#state.rank : "bits");
      input.disabled = !enabled;
    }
    part("rank").hidden = part("rank-note").hidden = !shown;
    part("rank-note").textContent = enabled
      ? "Bits: all bits count the same. Weights: the clearer a bit is for the query, the more it counts."
      : "Upload an image to rank by weights. They need the features of the query, and only its code is known.";
  }

  get #places() {
    const { a, b } = this.#state;
    return [["a", this.#info(a)], ...(b === NONE ? [] : [["b", this.#info(b)]])];
  }

  // Search in all catalogues, unless the results are shown already.
  async #search() {
    const { a, b, query, tag, k, pin } = this.#state;
    const file = this.#file;
    const rank = file ? this.#state.rank : "bits";
    const wanted = JSON.stringify([a, b, query, tag, k, rank]);
    if (wanted !== this.#searched) {
      this.#searching.abort();
      this.#searching = new AbortController();
      const { signal } = this.#searching;
      this.#searched = wanted;
      const item = loadItem(this.#api, this.#info(a), query, signal);
      item.catch(() => {}); // the columns show the error
      for (const [place] of this.#places) this.#columns[place].wait();
      const summaries = await Promise.all(
        this.#places.map(([place, info]) => this.#fillColumn(place, info, item, rank, file, signal)),
      );
      if (signal.aborted) return;
      await this.#showQuery(item, file);
      part("status").textContent = summaries.join(" ");
      if (this.#searched) this.#notices.hide(); // every catalogue answered
      if (this.#searched) this.#searched = JSON.stringify([a, b, query, tag, k, rank]); // with the codes from the service
      this.#write("replace");
    }
    for (const [place] of this.#places) {
      this.#columns[place].select(pin?.place === place ? pin.id : null);
    }
  }

  // Search in one catalogue; returns a summary for screen readers.
  async #fillColumn(place, info, item, rank, file, signal) {
    const column = this.#columns[place];
    const { query, tag, k } = this.#state;
    try {
      const result = await search(this.#api, info, query, { k, tag, rank, file }, signal);
      const shown = await item;
      if (signal.aborted) return "";
      if (query.codes) query.codes[info.name] = result.code;
      const about = { code: result.code, item: shown, rejected: result.rejected };
      return column.show(about, result.hits, result.other);
    } catch (problem) {
      if (problem.kind === "cancelled" || signal.aborted) return "";
      const rejected = problem.kind === "rejected";
      if (!rejected) this.#searched = "";
      column.clear(rejected ? problem.message : "No response.");
      if (!rejected) this.#fail(problem);
      return rejected ? problem.message : "";
    }
  }

  async #showQuery(item, file) {
    const { a, query } = this.#state;
    try {
      showQuery(part("query"), this.#api, this.#info(a), await item, query, file);
    } catch {
      part("query").replaceChildren(); // the columns show the error
    }
  }

  #showNothing() {
    const text = "No items to pick from. Start the service with --queries.";
    for (const [place] of this.#places) this.#columns[place].clear(text);
    part("query").replaceChildren();
    part("status").textContent = text;
  }

  async #showScores() {
    const root = part("scores");
    const places = this.#places;
    const names = places.map(([, info]) => info.name).join();
    if (names === this.#drawn) return;
    this.#drawn = names;
    waitForScores(root);
    for (const [, info] of places) {
      if (tagsOf(info, info.index_domain).length < 2) {
        this.#scores.set(info.name, { scores: null, problem: "No scores: items need at least two different tags" });
      }
      if (this.#scores.has(info.name)) continue;
      try {
        const address = `/v1/catalogues/${encodeURIComponent(info.name)}/scores`;
        this.#scores.set(info.name, { scores: await this.#api.get(address) });
      } catch (problem) {
        if (problem.kind !== "rejected") {
          this.#drawn = "";
          drawScores(root, [{ problem: "No response" }]);
          return;
        }
        this.#scores.set(info.name, { scores: null, problem: problem.message });
      }
    }
    if (names !== this.#drawn) return;
    const shown = places.map(([place, info]) => ({ place, info, ...this.#scores.get(info.name) }));
    drawScores(root, shown);
  }

  #fail(problem) {
    if (problem.kind === "cancelled") return;
    if (problem.kind === "key") {
      this.#notices.askKey(() => this.load());
      return;
    }
    const text = problem.kind === "offline" ? problem.message : `Error: ${problem.message}.`;
    this.#notices.show(text, "Try again", () => this.load(), problem.kind === "offline");
    part("gallery").setAttribute("aria-busy", "false");
    if (!this.#catalogues.length) part("scores").setAttribute("aria-busy", "false");
  }
}

new Page().load();
