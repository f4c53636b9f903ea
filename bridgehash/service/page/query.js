// The query: search with it, and show it.

import { RequestError } from "./api.js";
import { pattern } from "./bits.js";
import { acceptsImages } from "./catalogues.js";
import { el } from "./dom.js";
import { itemText, nameOf } from "./names.js";
import { tagsText, thumbnail } from "./tiles.js";

let preview = ""; // address of the uploaded image that is shown

export function showQuery(root, api, info, item, query, file) {
  if (preview) URL.revokeObjectURL(preview);
  preview = "";
  const words = [];
  let shown;
  if (item) {
    shown = thumbnail(api, item, info.n_bits);
    const name = item.domain || nameOf(info, item.from);
    words.push(el("strong", {}, tagsText(item) || "no tag"));
    words.push(el("span", { class: "soft" }, itemText(name, item.id)));
  } else if (file) {
    preview = URL.createObjectURL(file);
    shown = el("span", { class: "face loaded" }, el("img", { src: preview, alt: "" }));
    words.push(el("strong", {}, file.name || "your image"));
    words.push(el("span", { class: "soft" }, "uploaded image"));
  } else {
    shown = el("span", { class: "face" }, pattern(query.codes[info.name] ?? "", info.n_bits));
    words.push(el("strong", {}, "code"));
    words.push(el("span", { class: "soft" }, "of an image that was not stored"));
  }
  root.replaceChildren(shown, el("p", {}, el("span", { class: "soft" }, "Your query"), ...words));
  document.title = `${words[0].textContent} · ${info.name} · bridgehash`;
}

// Search with an item, a code or an image; returns the code of the query and the nearest items. For
// an image also `other`: the other way to rank, and the ids that it finds.
export async function search(api, info, query, { k, tag, rank, file }, signal) {
  const base = `/v1/catalogues/${encodeURIComponent(info.name)}/search`;
  const options = tag ? { k, tags: tag } : { k };
  let response;
  if (!query.codes) {
    const form = { ids: [query.id], domain: query.domain, ...options };
    response = await api.post(base, form, signal);
  } else if (file && acceptsImages(info)) {
    return searchImage(api, base, file, rank, options, signal);
  } else if (query.codes[info.name]) {
    response = await api.post(base, { codes: [query.codes[info.name]], ...options }, signal);
  } else if (!acceptsImages(info)) {
    throw new RequestError("rejected", "This catalogue does not accept images.");
  } else {
    throw new RequestError("rejected", "The image was not stored. Drop it again to search here.");
  }
  return response.results[0];
}

async function searchImage(api, base, file, rank, options, signal) {
  const parameters = new URLSearchParams({ ...options, rank: "weights" });
  const [weights] = (await api.send(`${base}/image?${parameters}`, file, signal)).results;
  const [bits] = (await api.post(base, { codes: [weights.code], ...options }, signal)).results;
  const name = rank === "bits" ? "weights" : "bits";
  const found = { bits, weights };
  const { rejected } = weights; // features say more than the code
  return { ...found[rank], rejected, other: { name, ids: found[name].hits.map((hit) => hit.id) } };
}

// The item of the query, and the domain it was picked from; null for an image or a code.
export async function loadItem(api, info, query, signal) {
  if (query.codes) return null;
  const { id, domain } = query;
  const base = `/v1/catalogues/${encodeURIComponent(info.name)}/items/${encodeURIComponent(id)}`;
  return { ...(await api.get(`${base}?domain=${encodeURIComponent(domain)}`, signal)), from: domain };
}
