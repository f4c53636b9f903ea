// Catalogues in words: what their codes are, and the names that the model gives to domains.

import { acceptsImages, domainsOf } from "./catalogues.js";
import { counted } from "./dom.js";

const GENERIC = ["source", "target"]; // of a model that was fitted without names

// The kind of codes, with the method: "Bridged codes (ATH)", or "Ordinary codes (ITQ)" if a method
// for one domain was fitted on both.
export function codesTitle(info) {
  const [kind, method] = codesKind(info);
  return `${[kind, "codes"].filter(Boolean).join(" ").replace(/^./, (c) => c.toUpperCase())} (${method})`;
}

// A catalogue in a list to choose from; its name first, because a narrow list cuts the end.
export function catalogueText(info) {
  const [kind, method] = codesKind(info);
  return `${info.name}: ${kind || method}`;
}

function codesKind(info) {
  const ordinary = /^Shared\((.*)\)$/.exec(info.method);
  if (ordinary) return ["ordinary", ordinary[1]];
  return [Object.keys(info.domains).length > 1 ? "bridged" : "", info.method];
}

// Items of a domain: "150 sketches", "150 items of the target", or "150 items" without a name.
export function amount(n, name) {
  if (!name) return counted(n, "item");
  if (GENERIC.includes(name)) return `${counted(n, "item")} of the ${name}`;
  return `${n.toLocaleString("en")} ${name}`;
}

// The name of the items of a domain; empty for a one-domain model and for an index of several.
export function nameOf(info, domain) {
  const one = Object.keys(info.domains).length < 2;
  const mixed = domain === info.index_domain && Object.keys(info.items_per_domain).length > 1;
  return one || mixed ? "" : domain;
}

// The label of a domain in a list to choose from: "150 sketches", or "target (150)".
export function choice(info, domain) {
  const n = info.domains[domain].n_items;
  const name = nameOf(info, domain);
  return GENERIC.includes(name) ? `${name} (${n.toLocaleString("en")})` : amount(n, name);
}

// One item: "sketches, item 4".
export function itemText(name, id) {
  return name ? `${name}, item ${id}` : `item ${id}`;
}

// What can be searched with what.
export function heading(info) {
  const { index_domain: index, query_domain: query } = info;
  const names = [nameOf(info, index), nameOf(info, query)];
  const named = names.every((name) => name && !GENERIC.includes(name));
  const asked = domainsOf(info).includes(query) || acceptsImages(info);
  return named && asked ? `Search ${index} with ${query}` : "Search across domains";
}
