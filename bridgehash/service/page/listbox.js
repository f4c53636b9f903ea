// A list box: Tab reaches one option, arrow keys move to the others.

export class ListBox {
  #list;
  #on;

  // on.focus(option or null), on.pick(option), on.leave()
  constructor(list, on) {
    this.#list = list;
    this.#on = on;
    list.addEventListener("keydown", (event) => this.#key(event));
    list.addEventListener("click", (event) => {
      const option = this.#at(event.target);
      if (option) this.#pick(option);
    });
    list.addEventListener("focusin", (event) => {
      const option = this.#at(event.target);
      if (option) this.#enter(option);
    });
    list.addEventListener("focusout", () => on.focus?.(null));
    list.addEventListener("pointerover", (event) => on.focus?.(this.#at(event.target)));
    list.addEventListener("pointerleave", () => on.focus?.(null));
  }

  get options() {
    return [...this.#list.querySelectorAll('[role="option"]')];
  }

  // Choose the option that Tab reaches, after the options have changed.
  reset(option = null) {
    const chosen = option ?? this.options[0];
    for (const each of this.options) each.tabIndex = each === chosen ? 0 : -1;
  }

  focus() {
    const option = this.options.find((each) => each.tabIndex === 0);
    option?.focus();
    return option !== undefined;
  }

  #at(target) {
    return target instanceof Element ? target.closest('[role="option"]') : null;
  }

  #enter(option) {
    this.reset(option);
    this.#on.focus?.(option);
  }

  #pick(option) {
    this.reset(option);
    this.#on.pick(option);
  }

  #key(event) {
    const option = this.#at(event.target);
    if (!option || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") {
      this.#on.leave?.();
    } else if (event.key === "Enter" || event.key === " ") {
      this.#pick(option);
    } else {
      const next = this.#next(option, event.key);
      if (next === undefined) return;
      next?.focus();
    }
    event.preventDefault();
  }

  // The option a key moves to; null at the end, undefined for other keys.
  #next(option, key) {
    const all = this.options;
    const i = all.indexOf(option);
    const row = all.filter((each) => each.offsetTop === all[0].offsetTop).length || 1;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -row, ArrowDown: row };
    if (key === "Home") return all[0];
    if (key === "End") return all.at(-1);
    return key in steps ? all[i + steps[key]] ?? null : undefined;
  }
}
