// Why an answer holds, or could hold: the query with everything filled in, then the reasons in words.

import { call } from "./api.js";
import { html, percent } from "./dom.js";
import { drawIn } from "./drawing.js";
import { mark } from "./marks.js";

const nameOf = (named) => named.label || named.entity;

/** Writes what a qualifier did, in points of a hundred. */
function points(difference) {
  const value = Math.round(difference * 100);
  if (value === 0) return "no difference";
  return `${value > 0 ? "+" : "−"}${Math.abs(value)} ${Math.abs(value) === 1 ? "point" : "points"}`;
}

function qualifier(pair) {
  const weighed = pair.difference !== null && pair.difference !== undefined;
  return html(
    "li",
    {},
    html("span", { class: "pair" }, `${nameOf(pair.relation)}: ${nameOf(pair.value)}`),
    weighed &&
      html("span", { class: "points", title: "What this qualifier does to the probability of the statement" }, points(pair.difference)),
  );
}

function reason(why) {
  return html(
    "li",
    { class: why.fact ? "fact" : "predicted" },
    html(
      "p",
      { class: "sentence" },
      html("b", {}, nameOf(why.head)),
      html("span", { class: "relation" }, ` ${nameOf(why.relation)} `),
      html("b", {}, nameOf(why.tail)),
    ),
    mark(why.fact, why.fact ? "fact" : `predicted, ${percent(why.probability)}`),
    why.qualifiers.length > 0 && html("ul", { class: "qualifiers" }, why.qualifiers.map(qualifier)),
    why.statements.length > 0 &&
      html(
        "div",
        { class: "proof" },
        "In the graph:",
        html(
          "ul",
          {},
          why.statements.map((text) => html("li", {}, text)),
        ),
      ),
  );
}

/** Writes what the probability of a prediction is made of: its statements, and the model's view of the whole question. */
function viewsOf(views) {
  const share = Math.round((1 - views.weight) * 100);
  return html(
    "dl",
    { class: "views" },
    html("dt", {}, "These statements together"),
    html("dd", {}, percent(views.statements)),
    html("dt", {}, "The model's view of the whole question"),
    html("dd", {}, `${percent(views.model)}, counts ${share} % of the ranking`),
  );
}

/** Fetches an explanation and shows it in an element. Raises what `call` raises. */
export async function explainIn(element, query, entity, signal) {
  const content = await call("api/explain", { body: { query, entity }, signal });
  const figure = html("div", { class: "drawing" });
  element.replaceChildren(
    html("p", { class: "note" }, content.note),
    html("figure", {}, figure),
    html("ol", { class: "reasons" }, content.reasons.map(reason)),
    ...(content.views ? [viewsOf(content.views)] : []),
  );
  drawIn(figure).show(content.drawing);
}
