// Why an answer holds, or could hold: the query with everything filled in, then the reasons in words.

import { call } from "./api.js";
import { html, percent } from "./dom.js";
import { drawIn } from "./drawing.js";
import { mark } from "./marks.js";

const nameOf = (named) => named.label || named.entity;

/** Writes the effect of a qualifier, in percentage points. */
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
      html("span", { class: "points", title: "The effect of this qualifier on the probability of the statement" }, points(pair.difference)),
  );
}

/** Writes one statement; in a negation, a statement that is not a fact is missing. */
function reason(why, negated) {
  const word = why.fact ? "fact" : negated ? `missing; probability that it is true: ${percent(why.probability)}` : `predicted, ${percent(why.probability)}`;
  return html(
    "li",
    { class: why.fact ? "fact" : negated ? "missing" : "predicted" },
    html(
      "p",
      { class: "sentence" },
      html("b", {}, nameOf(why.head)),
      html("span", { class: "relation" }, ` ${nameOf(why.relation)} `),
      html("b", {}, nameOf(why.tail)),
    ),
    mark(why.fact, word),
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

const listOf = (items) => html("ol", { class: "reasons" }, items);

/** Writes a comparison of two entities. */
function comparison(part, negated) {
  const sign = negated ? " ≠ " : " = ";
  return html("li", { class: "fact" }, html("p", { class: "sentence" }, html("b", {}, nameOf(part.left)), sign, html("b", {}, nameOf(part.right))));
}

/** Writes a union: the option that explains the answer, then the others. */
function options(part, reasons, negated) {
  const order = part.parts.map((option, i) => ({ option, i })).sort((a, b) => Number(b.i === part.chosen) - Number(a.i === part.chosen) || a.i - b.i);
  const title = ({ option, i }) =>
    i === part.chosen ? `This option explains it (${percent(option.truth)})` : `Another option (${percent(option.truth)})`;
  return html(
    "li",
    { class: "group" },
    html("p", { class: "sentence" }, `At least one of ${part.parts.length} options: ${percent(part.truth)}`),
    order.map((one) =>
      html("div", { class: one.i === part.chosen ? "branch" : "branch other" }, html("p", { class: "quiet-text" }, title(one)), listOf(items(one.option, reasons, negated))),
    ),
  );
}

/** Writes a negation: the statements that must be missing. */
function negation(part, reasons, negated) {
  const [inner] = part.parts;
  if (inner.kind === "same") return comparison(inner, !negated);
  const single = inner.kind === "statement";
  const title = single ? "Relies on: no such statement" : `Relies on: these do not hold together (${percent(inner.truth)} that they do)`;
  return html("li", { class: "group" }, html("p", { class: "sentence" }, title), listOf(items(inner, reasons, !negated)));
}

/** Creates the list items for a part of the query. */
function items(part, reasons, negated = false) {
  if (part.kind === "statement") return [reason(reasons[part.reason], negated)];
  if (part.kind === "same") return [comparison(part, negated)];
  if (part.kind === "any") return [options(part, reasons, negated)];
  if (part.kind === "not") return [negation(part, reasons, negated)];
  return part.parts.flatMap((inner) => items(inner, reasons, negated));
}

/** Writes the components of a prediction's probability: its statements, and the model's score for the whole question. */
function viewsOf(views) {
  const share = Math.round((1 - views.weight) * 100);
  return html(
    "dl",
    { class: "views" },
    html("dt", {}, "These statements together"),
    html("dd", {}, percent(views.statements)),
    html("dt", {}, "The model's score for the whole question"),
    html("dd", {}, `${percent(views.model)}, counts ${share} % of the ranking`),
  );
}

/** Fetches an explanation and shows it in an element. Throws what `call` throws. */
export async function explainIn(element, query, row, signal) {
  const content = await call("api/explain", { body: { query, row }, signal });
  const figure = html("div", { class: "drawing" });
  element.replaceChildren(
    html("p", { class: "note" }, content.note),
    html("figure", {}, figure),
    listOf(items(content.derivation, content.reasons)),
    ...(content.views ? [viewsOf(content.views)] : []),
  );
  drawIn(figure).show(content.drawing);
}
