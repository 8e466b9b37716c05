// The two marks, as icon and word: a full disc is known, a dashed ring is predicted.

import { html, svg } from "./dom.js";

const icon = {
  known: () => [svg("circle", { class: "disc", cx: 8, cy: 8, r: 7 }), svg("path", { class: "tick", d: "M4.8,8.3 7,10.5 11.3,5.8" })],
  predicted: () => [svg("circle", { class: "ring", cx: 8, cy: 8, r: 6.2 })],
};

/** Creates the mark for known or predicted; the word may differ from the kind. */
export function mark(known, word = known ? "known" : "predicted") {
  const kind = known ? "known" : "predicted";
  return html(
    "span",
    { class: `mark ${kind}` },
    svg("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" }, icon[kind]()),
    word,
  );
}
