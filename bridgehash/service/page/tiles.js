// An item as a tile: its image, or else the pattern of its code.

import { pattern } from "./bits.js";
import { el } from "./dom.js";
import { itemText } from "./names.js";

const SMALL = 48; // pixels; smaller images are not smoothed

export function thumbnail(api, item, nBits) {
  const frame = el("span", { class: "face" });
  if (item.image) showImage(api, frame, item, nBits);
  else frame.append(pattern(item.code, nBits));
  return frame;
}

function showImage(api, frame, item, nBits) {
  const image = el("img", { alt: "", loading: "lazy", decoding: "async" });
  image.addEventListener("load", () => {
    if (image.naturalWidth < SMALL) image.classList.add("hard");
    frame.classList.add("loaded");
  });
  const showCode = () => frame.replaceChildren(pattern(item.code, nBits));
  image.addEventListener("error", showCode);
  api.image(item.image).then((url) => image.setAttribute("src", url), showCode);
  frame.append(image);
}

export function labelOf(item) {
  const tags = tagsText(item);
  const text = itemText(item.domain, item.id);
  return tags ? `${tags}, ${text}` : text;
}

export function tagsText(item) {
  return item.tags.join(", ");
}

// The id of an item is a number or a text; an attribute stores it as JSON.
export function idOf(option) {
  return JSON.parse(option.dataset.id);
}
