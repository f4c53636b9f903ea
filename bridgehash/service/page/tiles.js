// An item as a tile: its picture, or the pattern of its code where there is none.

import { pattern } from "./bits.js";
import { el } from "./dom.js";

const SMALL = 48; // pixels; smaller pictures are shown with hard edges

export function face(api, item, nBits) {
  const frame = el("span", { class: "face" });
  if (item.image) showPicture(api, frame, item, nBits);
  else frame.append(pattern(item.code, nBits));
  return frame;
}

function showPicture(api, frame, item, nBits) {
  const image = el("img", { alt: "", loading: "lazy", decoding: "async" });
  image.addEventListener("load", () => {
    if (image.naturalWidth < SMALL) image.classList.add("hard");
    frame.classList.add("loaded");
  });
  const instead = () => frame.replaceChildren(pattern(item.code, nBits));
  image.addEventListener("error", instead);
  api.picture(item.image).then((shown) => image.setAttribute("src", shown), instead);
  frame.append(image);
}

export function named(item) {
  return item.tag ? `${item.tag}, item ${item.id}` : `item ${item.id}`;
}
