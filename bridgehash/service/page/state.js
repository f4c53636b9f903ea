// The state of the page, stored in the address so that reloads and links show the same.
//
//   a, b    catalogues; "-" in b: none
//   from    domain of the queries to pick from;  qtag: their tag
//   q       domain:id of the query, or its codes:  code=catalogue:hex, once per catalogue
//   tag, k  which items are searched, and how many are shown
//   rank    "bits" or "weights", for uploaded images
//   pin     a:id or b:id of the selected item

export const NONE = "-";
export const COUNTS = [6, 12, 24, 48];

const EMPTY = { a: "", b: "", from: "", query: null, qtag: "", tag: "", k: 12, rank: "weights", pin: null };

export function readState(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const k = Number(given.get("k"));
  return {
    ...EMPTY,
    a: given.get("a") ?? "",
    b: given.get("b") ?? "",
    from: given.get("from") ?? "",
    qtag: given.get("qtag") ?? "",
    tag: given.get("tag") ?? "",
    k: COUNTS.includes(k) ? k : EMPTY.k,
    rank: given.get("rank") === "bits" ? "bits" : EMPTY.rank,
    query: readQuery(given),
    pin: readPair(given.get("pin"), /^[ab]$/),
  };
}

export function writeState(state) {
  const shown = new URLSearchParams();
  for (const name of ["a", "b", "from", "qtag", "tag"]) {
    if (state[name]) shown.set(name, state[name]);
  }
  if (state.k !== EMPTY.k) shown.set("k", state.k);
  if (state.rank !== EMPTY.rank) shown.set("rank", state.rank);
  if (state.query?.codes) {
    for (const [name, code] of Object.entries(state.query.codes)) {
      shown.append("code", `${name}:${code}`);
    }
  } else if (state.query) {
    shown.set("q", `${state.query.domain}:${JSON.stringify(state.query.id)}`);
  }
  if (state.pin) shown.set("pin", `${state.pin.place}:${JSON.stringify(state.pin.id)}`);
  return `#${shown}`;
}

function readQuery(given) {
  const pair = readPair(given.get("q"), /^[^:]+$/);
  if (pair) return { domain: pair.place, id: pair.id };
  const codes = given.getAll("code").map((text) => text.split(":"));
  const good = codes.filter((pair) => pair.length === 2 && /^([0-9a-f]{2})+$/.test(pair[1]));
  return good.length ? { codes: Object.fromEntries(good) } : null;
}

function readPair(text, places) {
  const [, place, json] = /^([^:]+):(\d{1,15}|".*")$/.exec(text ?? "") ?? [];
  if (!places.test(place ?? "")) return null;
  try {
    return { place, id: JSON.parse(json) };
  } catch {
    return null; // not JSON
  }
}
