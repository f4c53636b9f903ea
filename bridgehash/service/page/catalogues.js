// What each catalogue offers, and which of them have the same items.

import { NONE } from "./state.js";

// Other catalogues with the same items and queries, in codes of another method or length.
export function comparable(catalogues, info) {
  const contents = contentsOf(info);
  return catalogues.filter((each) => each !== info && contentsOf(each) === contents);
}

function contentsOf(info) {
  const domains = Object.entries(info.domains).sort();
  const parts = domains.map(([name, each]) => [name, each.n_items, each.n_images, each.tags]);
  return JSON.stringify([info.index_domain, info.query_domain, parts]);
}

// Domains to pick queries from, the domain of the queries first.
export function domainsOf(info) {
  const names = [...new Set([info.query_domain, info.index_domain])];
  return names.filter((name) => info.domains[name]?.n_items);
}

export function tagsOf(info, domain) {
  return (info.domains[domain]?.tags ?? []).filter(Boolean);
}

export function acceptsImages(info) {
  return Boolean(info.domains[info.query_domain]?.backbone);
}

// The state with every part that does not exist replaced by a default.
export function validState(state, catalogues) {
  const known = (name) => catalogues.find((each) => each.name === name);
  const info = known(state.a) ?? catalogues[0];
  const others = comparable(catalogues, info).map((each) => each.name);
  const domains = domainsOf(info);
  const from = domains.includes(state.from) ? state.from : domains[0] ?? "";
  const { query } = state;
  const keepsQuery = query && (query.codes || domains.includes(query.domain));
  return {
    ...state,
    a: info.name,
    b: [NONE, ...others].includes(state.b) ? state.b : others[0] ?? NONE,
    from,
    qtag: tagsOf(info, from).includes(state.qtag) ? state.qtag : "",
    tag: tagsOf(info, info.index_domain).includes(state.tag) ? state.tag : "",
    query: keepsQuery ? query : null,
    pin: keepsQuery ? state.pin : null,
  };
}
