// Notices, and the dialog for the API key. A notice goes away when a request succeeds.

import { el } from "./dom.js";

const RETRY = 5_000; // milliseconds until a service that did not answer is asked again

export class Notices {
  #notice;
  #dialog;
  #api;
  #timer = 0;

  constructor(api, notice, dialog) {
    this.#api = api;
    this.#notice = notice;
    this.#dialog = dialog;
  }

  hide() {
    clearTimeout(this.#timer);
    this.#notice.classList.remove("shown");
    this.#notice.replaceChildren();
  }

  // Show a message and one button; with `retries`, act without the button after some seconds, too.
  show(text, button, act, retries = false) {
    clearTimeout(this.#timer);
    if (retries) this.#timer = setTimeout(act, RETRY);
    if (this.#notice.querySelector("p")?.textContent === text) return; // do not announce it twice
    const press = el("button", { type: "button" }, button);
    press.addEventListener("click", () => {
      this.hide();
      act();
    });
    this.#notice.replaceChildren(el("p", {}, text), press);
    this.#notice.classList.add("shown");
  }

  // Ask for the API key, then call retry; if cancelled, show a notice instead.
  askKey(retry) {
    const dialog = this.#dialog;
    if (dialog.open) return; // several requests failed at once
    const rejected = this.#api.hasKey;
    this.#api.setKey("");
    const part = (name) => dialog.querySelector(name);
    part("#key-text").textContent = rejected
      ? "The API key was not accepted. Check it and try again."
      : "This service requires an API key. It is stored until you close this tab.";
    part("#key-input").value = "";
    part("#key-input").setAttribute("aria-invalid", rejected);
    let given = "";
    part("#key-form").onsubmit = (event) => {
      event.preventDefault();
      given = part("#key-input").value.trim();
      dialog.close();
    };
    part("#key-cancel").onclick = () => dialog.close();
    dialog.onclose = () => {
      part("#key-input").value = "";
      if (given) {
        this.#api.setKey(given);
        retry();
      } else {
        this.show("This service requires an API key.", "Enter the key", retry);
      }
    };
    dialog.showModal();
  }
}
