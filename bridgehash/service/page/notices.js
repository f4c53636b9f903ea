// What stands in the way: a notice with a way out, and the question for the key.

import { el } from "./dom.js";

export class Notices {
  #notice;
  #dialog;
  #api;

  constructor(api, notice, dialog) {
    this.#api = api;
    this.#notice = notice;
    this.#dialog = dialog;
  }

  hide() {
    this.#notice.classList.remove("shown");
    this.#notice.replaceChildren();
  }

  // One sentence and one button.
  tell(text, button, act) {
    const press = el("button", { type: "button" }, button);
    press.addEventListener("click", () => {
      this.hide();
      act();
    });
    this.#notice.replaceChildren(el("p", {}, text), press);
    this.#notice.classList.add("shown");
  }

  // Ask for the key; go on with it, or leave a notice that asks again.
  askKey(goOn) {
    const dialog = this.#dialog;
    if (dialog.open) return; // several requests were refused at once
    const refused = this.#api.hasKey;
    this.#api.setKey("");
    const part = (name) => dialog.querySelector(name);
    part("#key-text").textContent = refused
      ? "That key was not accepted. Look at it once more, please."
      : "This service asks for its key. It is kept until this tab is closed.";
    part("#key-input").value = "";
    part("#key-input").setAttribute("aria-invalid", refused);
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
        goOn();
      } else {
        this.tell("Without its key this service shows nothing.", "Enter the key", goOn);
      }
    };
    dialog.showModal();
  }
}
