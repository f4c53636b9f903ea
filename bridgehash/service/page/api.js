// The service: requests with a key and a time limit, and pictures.

const PLACE = "bridgehash-key";
const PATIENCE = 20_000; // milliseconds
const KEPT = 400; // pictures

// Why there is no answer. kind: "silent" (no service), "key", "busy", "refused" or "dropped".
export class Problem extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

export class Api {
  #key = remembered();
  #pictures = new Map(); // address -> promise of what an <img> can show

  get hasKey() {
    return this.#key !== "";
  }

  setKey(key) {
    this.#key = key;
    try {
      if (key) sessionStorage.setItem(PLACE, key);
      else sessionStorage.removeItem(PLACE);
    } catch {
      // storage is switched off: the key lasts as long as the page
    }
  }

  get(path, signal) {
    return this.#json(path, {}, signal);
  }

  post(path, form, signal) {
    const headers = { "Content-Type": "application/json" };
    return this.#json(path, { method: "POST", headers, body: JSON.stringify(form) }, signal);
  }

  send(path, file, signal) {
    const headers = { "Content-Type": file.type };
    return this.#json(path, { method: "POST", headers, body: file }, signal);
  }

  // What to show for a picture: its address, or, where a key is needed, a copy fetched with it.
  picture(address) {
    if (!this.#key) return Promise.resolve(address);
    if (!this.#pictures.has(address)) {
      const copy = this.#ask(address, {}, null, (answer) => answer.blob());
      const shown = copy.then((blob) => URL.createObjectURL(blob));
      shown.catch(() => this.#pictures.delete(address));
      this.#pictures.set(address, shown);
      this.#forgetOld();
    }
    return this.#pictures.get(address);
  }

  #forgetOld() {
    for (const [address, shown] of this.#pictures) {
      if (this.#pictures.size <= KEPT) break;
      this.#pictures.delete(address);
      shown.then((copy) => URL.revokeObjectURL(copy)).catch(() => {});
    }
  }

  #json(path, options, signal) {
    return this.#ask(path, options, signal, (answer) => answer.json());
  }

  async #ask(path, options, signal, read) {
    const own = new AbortController();
    const drop = () => own.abort();
    signal?.addEventListener("abort", drop);
    const timer = setTimeout(drop, PATIENCE);
    const headers = { ...options.headers };
    if (this.#key) headers.Authorization = `Bearer ${this.#key}`;
    try {
      if (signal?.aborted) throw new Problem("dropped", "");
      const answer = await fetch(path, { ...options, headers, signal: own.signal });
      if (!answer.ok) throw await refusal(answer);
      return await read(answer);
    } catch (error) {
      if (error instanceof Problem) throw error;
      if (signal?.aborted) throw new Problem("dropped", "");
      throw new Problem("silent", "The service does not answer. Is it still running?");
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", drop);
    }
  }
}

async function refusal(answer) {
  let sentence = "";
  try {
    sentence = (await answer.json()).error;
  } catch {
    sentence = `the service answered with status ${answer.status}`;
  }
  const kinds = { 401: "key", 503: "busy" };
  return new Problem(kinds[answer.status] ?? "refused", sentence);
}

function remembered() {
  try {
    return sessionStorage.getItem(PLACE) ?? "";
  } catch {
    return "";
  }
}
