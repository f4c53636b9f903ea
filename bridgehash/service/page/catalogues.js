// What can be asked of which catalogue, and which of them hold the same things.

import { NONE } from "./state.js";

// Can they be compared: the same items and queries, in codes of another method or length?
export function alike(one, other) {
  return JSON.stringify(contents(one)) === JSON.stringify(contents(other));
}

function contents(facts) {
  const domains = Object.entries(facts.domains).sort();
  const shown = domains.map(([name, { items, pictures, tags }]) => [name, items, pictures, tags]);
  return [facts.index_domain, facts.query_domain, shown];
}

export function others(catalogues, facts) {
  return catalogues.filter((each) => each !== facts && alike(each, facts));
}

// Domains that queries can be picked from, that of the queries first.
export function sourcesOf(facts) {
  const names = [...new Set([facts.query_domain, facts.index_domain])];
  return names.filter((name) => facts.domains[name]?.items);
}

export function tagsOf(facts, domain) {
  return (facts.domains[domain]?.tags ?? []).filter(Boolean);
}

export function takesPictures(facts) {
  return Boolean(facts.domains[facts.query_domain]?.backbone);
}

// A state in which everything exists; what does not is replaced by what comes nearest.
export function settled(state, catalogues) {
  const known = (name) => catalogues.find((each) => each.name === name);
  const facts = known(state.a) ?? catalogues[0];
  const partners = others(catalogues, facts).map((each) => each.name);
  const sources = sourcesOf(facts);
  const from = sources.includes(state.from) ? state.from : sources[0] ?? "";
  const beside = [NONE, ...partners].includes(state.b) ? state.b : partners[0] ?? NONE;
  const { query } = state;
  const keepsQuery = query && (query.codes || sources.includes(query.domain));
  return {
    ...state,
    a: facts.name,
    b: beside,
    from,
    asks: tagsOf(facts, from).includes(state.asks) ? state.asks : "",
    tag: tagsOf(facts, facts.index_domain).includes(state.tag) ? state.tag : "",
    query: keepsQuery ? query : null,
    pin: keepsQuery ? state.pin : null,
  };
}
