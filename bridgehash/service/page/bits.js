// A code as a pattern of squares; bits that differ from another code are highlighted.

import { svg } from "./dom.js";

const GAP = 0.12;

// The bits of a packed code; the first is the highest bit of the first byte.
export function bitsOf(hex, nBits) {
  const bits = [];
  for (let i = 0; i < nBits; i += 1) {
    const byte = Number.parseInt(hex.slice(2 * (i >> 3), 2 * (i >> 3) + 2), 16);
    bits.push((byte >> (7 - (i & 7))) & 1);
  }
  return bits;
}

// A grid of squares with 8 or 16 columns.
export function pattern(hex, nBits, other = null) {
  const bits = bitsOf(hex, nBits);
  const others = other === null ? bits : bitsOf(other, nBits);
  const across = nBits <= 8 ? nBits : nBits <= 64 ? 8 : 16;
  const down = Math.ceil(nBits / across);
  const paths = { "bit-off": "", "bit-on": "", "bit-off differs": "", "bit-on differs": "" };
  bits.forEach((bit, i) => {
    const kind = (bit ? "bit-on" : "bit-off") + (bit === others[i] ? "" : " differs");
    paths[kind] += square(i % across, Math.floor(i / across));
  });
  const drawn = Object.entries(paths).filter(([, path]) => path);
  return svg(
    "svg",
    {
      class: other === null ? "bits" : "bits compared",
      viewBox: `0 0 ${across} ${down}`,
      width: across * (across > 8 ? 7 : 9.5),
      height: down * (across > 8 ? 7 : 9.5),
      "aria-hidden": "true",
    },
    ...drawn.map(([kind, d]) => svg("path", { class: kind, d })),
  );
}

function square(x, y) {
  const side = 1 - 2 * GAP;
  return `M${x + GAP} ${y + GAP}h${side}v${side}h${-side}z`;
}
