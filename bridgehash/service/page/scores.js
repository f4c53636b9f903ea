// Retrieval quality of catalogues: precision against recall, and a table of scores.

import { el, svg } from "./dom.js";
import { amount, codesTitle, nameOf } from "./names.js";

const SIZE = { width: 420, height: 270, left: 46, right: 12, top: 12, bottom: 42 };

const ROWS = [
  ["radius_pr_area", "Area under the curve", "radius_pr_area, often called MAP"],
  ["mean_average_precision", "Mean average precision", "mean_average_precision"],
  ["precision_at_10", "Precision of the first ten", "precision_at_10"],
];

// shown: for each catalogue {place, info, scores or null, problem}
export function drawScores(root, shown) {
  const measured = shown.filter((each) => each.scores);
  root.setAttribute("aria-busy", "false");
  if (!measured.length) {
    root.replaceChildren(el("p", { class: "soft" }, `${shown[0]?.problem ?? "No scores"}.`));
    return;
  }
  root.replaceChildren(
    el("figure", { class: "curve" }, curve(measured), legend(measured)),
    el("div", { class: "score-table" }, table(shown), note(measured[0])),
  );
}

export function waitForScores(root) {
  root.setAttribute("aria-busy", "true");
  if (!root.childElementCount) root.replaceChildren(el("p", { class: "soft" }, "Measuring …"));
}

function curve(measured) {
  const words = measured.map(
    ({ info, scores }) => `${info.name}: area ${percent(scores.radius_pr_area)}`,
  );
  return svg(
    "svg",
    {
      viewBox: `0 0 ${SIZE.width} ${SIZE.height}`,
      role: "img",
      "aria-label": `Precision against recall by Hamming radius. ${words.join("; ")}.`,
    },
    ...axes(),
    chance(measured[0].scores),
    ...measured.map(line),
  );
}

function x(recall) {
  return SIZE.left + recall * (SIZE.width - SIZE.left - SIZE.right);
}

function y(precision) {
  return SIZE.height - SIZE.bottom - precision * (SIZE.height - SIZE.top - SIZE.bottom);
}

function axes() {
  const drawn = [];
  for (const at of [0, 0.25, 0.5, 0.75, 1]) {
    drawn.push(svg("path", { class: "grid", d: `M${x(0)} ${y(at)}H${x(1)}` }));
    drawn.push(svg("path", { class: "grid", d: `M${x(at)} ${y(0)}V${y(1)}` }));
    const label = String(100 * at);
    drawn.push(svg("text", { x: x(0) - 7, y: y(at) + 4, "text-anchor": "end" }, label));
    drawn.push(svg("text", { x: x(at), y: y(0) + 17, "text-anchor": "middle" }, label));
  }
  const across = { x: x(0.5), y: SIZE.height - 6, "text-anchor": "middle" };
  const up = `translate(12 ${y(0.5)}) rotate(-90)`;
  drawn.push(svg("text", across, "recall, %"));
  drawn.push(svg("text", { transform: up, "text-anchor": "middle" }, "precision, %"));
  return drawn;
}

// With every item inside the radius, precision is the share of relevant items.
function chance(scores) {
  const level = scores.precision.at(-1);
  return svg("path", { class: "chance", d: `M${x(0)} ${y(level)}H${x(1)}` });
}

function line({ place, scores }) {
  const points = scores.recall
    .map((recall, i) => [recall, scores.precision[i]])
    .filter(([recall]) => recall > 0); // with no items inside the radius, precision is undefined
  const at = points.map(([recall, precision]) => `${x(recall).toFixed(1)} ${y(precision).toFixed(1)}`);
  const dots = points.length <= 40 ? points : [];
  return svg(
    "g",
    { class: `line-${place}` },
    svg("path", { class: "line", d: `M${at.join("L")}` }),
    ...dots.map(([recall, precision]) => svg("circle", { cx: x(recall), cy: y(precision), r: 2.6 })),
  );
}

function legend(measured) {
  const entries = measured.map(({ place, info }) =>
    el("span", { class: "entry" }, swatch(`line-${place}`, "line"), `${codesTitle(info)}: ${info.name}`),
  );
  entries.push(el("span", { class: "entry" }, swatch("", "chance"), "chance"));
  return el("figcaption", {}, ...entries);
}

function swatch(group, kind) {
  return svg(
    "svg",
    { viewBox: "0 0 30 8", class: "swatch", "aria-hidden": "true" },
    svg("g", { class: group }, svg("path", { class: kind, d: "M1 4H29" })),
  );
}

function table(shown) {
  const row = (title, small, cells) =>
    el("tr", {}, el("th", { scope: "row" }, title, el("small", {}, small)), ...cells);
  const best = (name) => Math.max(...shown.map(({ scores }) => scores?.[name] ?? 0));
  const cell = (value, strong) => el("td", {}, strong ? el("strong", {}, value) : value);
  const body = ROWS.map(([name, title, small]) =>
    row(
      title,
      small,
      shown.map(({ scores }) =>
        scores
          ? cell(percent(scores[name]), shown.length > 1 && scores[name] === best(name))
          : cell("–", false),
      ),
    ),
  );
  const bits = shown.map(({ info }) => cell(String(info.n_bits), false));
  const head = shown.map(({ place, info }) =>
    el(
      "th",
      { scope: "col" },
      el("span", { class: `name-${place}` }, codesTitle(info)),
      el("small", {}, info.name),
    ),
  );
  return el(
    "table",
    {},
    el("thead", {}, el("tr", {}, el("td", {}), ...head)),
    el("tbody", {}, ...body, row("Bits", "per code", bits)),
  );
}

function note({ info, scores }) {
  const queries = amount(scores.n_queries, nameOf(info, scores.query_domain));
  const items = amount(scores.n_items, nameOf(info, info.index_domain));
  const text =
    `In percent. Queries: ${queries}. Searched: ${items}. ` +
    "An item is relevant if it has the tags of the query.";
  return el("p", { class: "soft small" }, text);
}

function percent(value) {
  return (100 * value).toFixed(1);
}
