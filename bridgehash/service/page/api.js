// Requests to the service, with an API key and a time limit.

const STORAGE_KEY = "bridgehash-key";
const TIMEOUT = 20_000; // milliseconds
const MAX_IMAGES = 400;

// Why a request failed. kind: "offline", "key", "overloaded", "rejected" or "cancelled".
export class RequestError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

export class Api {
  #key = storedKey();
  #images = new Map(); // address -> promise of an address for <img>

  get hasKey() {
    return this.#key !== "";
  }

  setKey(key) {
    this.#key = key;
    try {
      if (key) sessionStorage.setItem(STORAGE_KEY, key);
      else sessionStorage.removeItem(STORAGE_KEY);
    } catch {
      // no storage: the key is lost when the page is closed
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

  // The address for <img>. If a key is needed, that of a copy fetched with the key.
  image(address) {
    if (!this.#key) return Promise.resolve(address);
    if (!this.#images.has(address)) {
      const copy = this.#request(address, {}, null, (response) => response.blob());
      const url = copy.then((blob) => URL.createObjectURL(blob));
      url.catch(() => this.#images.delete(address));
      this.#images.set(address, url);
      this.#evictOld();
    }
    return this.#images.get(address);
  }

  #evictOld() {
    for (const [address, url] of this.#images) {
      if (this.#images.size <= MAX_IMAGES) break;
      this.#images.delete(address);
      url.then((copy) => URL.revokeObjectURL(copy)).catch(() => {});
    }
  }

  #json(path, options, signal) {
    return this.#request(path, options, signal, (response) => response.json());
  }

  async #request(path, options, signal, read) {
    const own = new AbortController();
    const cancel = () => own.abort();
    signal?.addEventListener("abort", cancel);
    const timer = setTimeout(cancel, TIMEOUT);
    const headers = { ...options.headers };
    if (this.#key) headers.Authorization = `Bearer ${this.#key}`;
    try {
      if (signal?.aborted) throw new RequestError("cancelled", "");
      const response = await fetch(path, { ...options, headers, signal: own.signal });
      if (!response.ok) throw await errorOf(response);
      return await read(response);
    } catch (error) {
      if (error instanceof RequestError) throw error;
      if (signal?.aborted) throw new RequestError("cancelled", "");
      throw new RequestError("offline", "The service does not answer. Check that it is running.");
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", cancel);
    }
  }
}

async function errorOf(response) {
  let detail = `status ${response.status}`;
  try {
    detail = (await response.json()).detail;
  } catch {
    // not problem+json
  }
  const kinds = { 401: "key", 503: "overloaded" };
  return new RequestError(kinds[response.status] ?? "rejected", detail);
}

function storedKey() {
  try {
    return sessionStorage.getItem(STORAGE_KEY) ?? "";
  } catch {
    return "";
  }
}
