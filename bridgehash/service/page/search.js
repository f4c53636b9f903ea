// Questions to the service: an item that it has, a code, or a picture.

import { Problem } from "./api.js";
import { takesPictures } from "./catalogues.js";

// The code of the query and what is nearest to it.
export async function search(api, facts, query, { k, tag, file }, signal) {
  const base = `/v1/catalogues/${encodeURIComponent(facts.name)}/search`;
  const more = tag ? { tag } : {};
  let answer;
  if (!query.codes) {
    const form = { ids: [query.id], domain: query.domain, k, ...more };
    answer = await api.post(base, form, signal);
  } else if (query.codes[facts.name]) {
    answer = await api.post(base, { codes: [query.codes[facts.name]], k, ...more }, signal);
  } else if (!takesPictures(facts)) {
    throw new Problem("refused", "This catalogue takes no pictures.");
  } else if (!file) {
    throw new Problem("refused", "The picture is not kept: drop it again to ask here.");
  } else {
    answer = await api.send(`${base}/image?${new URLSearchParams({ k, ...more })}`, file, signal);
  }
  return answer.results[0];
}

// The item that asks, with its domain; null for a picture or a code.
export async function asking(api, facts, query, signal) {
  if (query.codes) return null;
  const { id, domain } = query;
  const base = `/v1/catalogues/${encodeURIComponent(facts.name)}/items/${id}`;
  return { ...(await api.get(`${base}?domain=${domain}`, signal)), domain };
}
