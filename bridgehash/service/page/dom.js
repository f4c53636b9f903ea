// Create elements. Attributes are set, never parsed, so no text becomes markup.

const SVG = "http://www.w3.org/2000/svg";

export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "onclick") element.addEventListener("click", value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Set the options of a select: pairs of a value and a label.
export function fill(select, choices, chosen) {
  select.replaceChildren(
    ...choices.map(([value, text]) => el("option", { value }, text)),
  );
  select.value = choices.some(([value]) => value === chosen) ? chosen : choices[0]?.[0] ?? "";
  select.disabled = choices.length < 2;
}

export function counted(n, noun) {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
}
