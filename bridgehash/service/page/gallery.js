// The gallery: items to use as queries, loaded page by page.

import { counted, el } from "./dom.js";
import { ListBox } from "./listbox.js";
import { idOf, labelOf, tagsText, thumbnail } from "./tiles.js";

const PAGE = 60;

export class Gallery {
  #api;
  #parts; // list, shown, more
  #listbox;
  #shown = null; // catalogue, domain and tag of the items
  #total = 0;
  #chosen = null; // id
  #turn = 0;
  #loading = Promise.resolve(); // the last request

  // on.pick(domain, id), on.problem(error)
  constructor(api, parts, on) {
    this.#api = api;
    this.#parts = parts;
    this.on = on;
    this.#listbox = new ListBox(parts.list, {
      pick: (option) => on.pick(this.#shown.domain, idOf(option)),
    });
    parts.more.addEventListener("click", () => this.#addPage(true));
  }

  get first() {
    const option = this.#listbox.options[0];
    return option ? idOf(option) : null;
  }

  // Show the items of a domain, unless they are shown already and `again` is false.
  show(catalogue, domain, tag, again = false) {
    const wanted = { catalogue, domain, tag };
    if (!again && JSON.stringify(wanted) === JSON.stringify(this.#shown)) return this.#loading;
    this.#shown = wanted;
    this.#total = 0;
    this.#parts.list.replaceChildren(...placeholders());
    this.#parts.more.hidden = true;
    this.#parts.shown.textContent = "";
    this.#loading = this.#addPage(false);
    return this.#loading;
  }

  mark(id) {
    this.#chosen = id;
    let tabbed = null;
    for (const option of this.#listbox.options) {
      const chosen = idOf(option) === id;
      option.setAttribute("aria-selected", chosen);
      if (chosen) tabbed = option;
    }
    if (!this.#parts.list.contains(document.activeElement)) this.#listbox.reset(tabbed);
  }

  focus() {
    return this.#listbox.focus();
  }

  // The id of a random item.
  async random() {
    if (!this.#total) return null;
    const offset = Math.floor(Math.random() * this.#total);
    const { items } = await this.#api.get(this.#address(offset, 1));
    return items[0]?.id ?? null;
  }

  async #addPage(further) {
    const turn = (this.#turn += 1);
    const { list, more } = this.#parts;
    const n = further ? this.#listbox.options.length : 0;
    list.setAttribute("aria-busy", "true");
    more.disabled = true;
    try {
      const page = await this.#api.get(this.#address(n, PAGE));
      if (turn !== this.#turn) return;
      this.#total = page.total;
      const options = page.items.map((item) => this.#option(item));
      if (further) list.append(...options);
      else list.replaceChildren(...options);
      this.mark(this.#chosen);
      this.#showCount(n + options.length);
      if (further) options[0]?.focus();
    } catch (problem) {
      if (turn !== this.#turn) return;
      if (!further) {
        this.#shown = null;
        list.replaceChildren();
      }
      this.on.problem(problem);
    } finally {
      if (turn === this.#turn) list.setAttribute("aria-busy", "false");
      more.disabled = false;
    }
  }

  #address(offset, limit) {
    const { catalogue, domain, tag } = this.#shown;
    const parameters = new URLSearchParams({ domain, offset, limit });
    if (tag) parameters.set("tags", tag);
    return `/v1/catalogues/${encodeURIComponent(catalogue.name)}/items?${parameters}`;
  }

  #option(item) {
    const { catalogue } = this.#shown;
    return el(
      "div",
      {
        class: "tile",
        role: "option",
        "data-id": JSON.stringify(item.id),
        tabindex: -1,
        "aria-label": labelOf(item),
      },
      thumbnail(this.#api, item, catalogue.n_bits),
      item.image ? null : el("span", { class: "caption" }, `${item.id} ${tagsText(item)}`),
    );
  }

  #showCount(n) {
    const { shown, more } = this.#parts;
    more.hidden = n >= this.#total;
    if (!this.#total) shown.textContent = "No items.";
    else if (n < this.#total) shown.textContent = `${n} of ${counted(this.#total, "item")}`;
    else shown.textContent = counted(this.#total, "item");
  }
}

function placeholders() {
  return Array.from({ length: 12 }, () => el("span", { class: "tile empty", role: "presentation" }));
}
