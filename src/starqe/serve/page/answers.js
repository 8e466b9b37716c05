// The answers: the known ones, then the predicted ones with their probabilities; each opens its explanation.

import { latest } from "./api.js";
import { byId, html, percent } from "./dom.js";
import { downloads } from "./download.js";
import { explainIn } from "./explanation.js";
import { mark } from "./marks.js";

const isNamed = (bound) => bound !== null && ["entity", "relation"].includes(bound.kind);

/** Returns an identifier as quiet text, with a link if it is a web address. */
function identifier({ entity, iri }) {
  const address = [entity, iri].find((text) => /^https?:\/\/[^\s]+$/i.test(text ?? ""));
  if (!address) return html("span", { class: "identifier" }, entity);
  return html("a", { class: "identifier", href: address, rel: "noopener noreferrer", target: "_blank", title: address }, entity);
}

function bar(probability) {
  const filled = html("span", { class: "filled" });
  filled.style.width = `${Math.max(0, Math.min(1, probability)) * 100}%`;
  return html("span", { class: "bar", "aria-hidden": "true" }, filled);
}

const text = (bound) => (bound === null ? "–" : bound.label || bound.entity);

/** Returns the cells of a row; with several columns, a narrow screen shows the column names above the cells. */
function cells(answer, columns) {
  if (!columns.length) return html("span", { class: "label" }, "yes");
  const cell = (name) =>
    html("span", { class: "cell" }, columns.length > 1 && html("span", { class: "column" }, `?${name} `), html("span", { class: "label" }, text(answer.bindings[name])));
  return html("span", { class: "cells" }, columns.map(cell));
}

/** Creates one row of the answers; a click opens and closes its explanation. */
function row(answer, number, { query, columns, predictable }) {
  const named = columns.filter((name) => isNamed(answer.bindings[name]));
  const values = Object.fromEntries(named.map((name) => [name, answer.bindings[name].entity]));
  // No statement is about labels, about nodes that are no entities, or about what is counted.
  const canExplain = predictable && (named.length > 0 || columns.length === 0);
  const explain = latest((signal, element) => explainIn(element, query, values, signal));
  const panel = html("div", {
    class: "explanation",
    id: `why-${number}`,
    role: "region",
    "aria-label": `Why ${columns.map((name) => text(answer.bindings[name])).join(", ")}`,
    hidden: true,
  });
  const button = html(
    "button",
    { type: "button", class: "answer", "aria-expanded": "false", "aria-controls": panel.id },
    cells(answer, columns),
    !answer.known && bar(answer.probability),
    !answer.known && html("span", { class: "probability" }, percent(answer.probability)),
    html("span", { class: "why", "aria-hidden": "true" }, canExplain && "why?"),
  );
  button.disabled = !canExplain;
  const open = async () => {
    button.setAttribute("aria-expanded", "true");
    panel.hidden = false;
    panel.replaceChildren(html("p", { class: "busy" }, "Looking for reasons …"));
    try {
      await explain(panel);
    } catch (error) {
      const again = html("button", { type: "button", class: "quiet", onclick: open }, "Try again");
      panel.replaceChildren(html("p", { class: "failure" }, error.message, " ", error.passing && again));
    }
  };
  const close = () => {
    explain.abort();
    button.setAttribute("aria-expanded", "false");
    panel.hidden = true;
  };
  button.addEventListener("click", () => (panel.hidden ? open() : close()));
  const item = html(
    "li",
    { class: answer.known ? "known" : "predicted" },
    button,
    html(
      "div",
      { class: "more" },
      named.map((name) => identifier(answer.bindings[name])),
    ),
    panel,
  );
  item.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || panel.hidden) return;
    close();
    button.focus();
  });
  return item;
}

/** Counts the answers that are shown, and all that are known; `exact` is false if there may be more. */
function counted(content) {
  const known = content.answers.filter((answer) => answer.known).length;
  const { counts } = content;
  return { known, all: Math.max(known, counts?.known ?? known), exact: counts?.known_exact ?? true, predicted: content.answers.length - known };
}

const number = (value) => value.toLocaleString("en");

function knownTitle({ known, all, exact }) {
  if (exact && known === all) return `Known: ${number(known)}`;
  return `Known: ${number(known)} of ${exact ? "" : "at least "}${number(all)}`;
}

function duration(milliseconds) {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${milliseconds < 10 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`;
}

const UNCALIBRATED = "Not calibrated: there was too little data to check these percentages. Read them as an order, not as probabilities.";

/** Creates the line with the names of several columns; a narrow screen has them in each row. */
const columnNames = (columns, isKnown) =>
  html(
    "div",
    { class: `column-names ${isKnown ? "of-known" : "of-predicted"}`, "aria-hidden": "true" },
    html("span", { class: "cells" }, columns.map((name) => html("span", { class: "cell" }, `?${name}`))),
  );

/** Creates the list of known or predicted answers, with its title and a sentence about it. */
function group(title, isKnown, meaning, answers, first, asked, chip = null) {
  const { columns } = asked;
  const id = isKnown ? "known-title" : "predicted-title";
  return html(
    "section",
    { class: "group", "aria-labelledby": id },
    html("h3", { id }, mark(isKnown, title), chip),
    html("p", { class: "meaning" }, meaning),
    answers.length > 0 && columns.length > 1 && columnNames(columns, isKnown),
    answers.length > 0 &&
      html(
        "ol",
        { class: columns.length > 1 ? "ranking several" : "ranking" },
        answers.map((answer, i) => row(answer, first + i, asked)),
      ),
  );
}

function groups(content, query) {
  const { answers, columns, known_splits: splits } = content;
  const predictable = content.predictable ?? true;
  const asked = { query, columns, predictable };
  const counts = counted(content);
  const all = splits.length > 1 ? `${splits.slice(0, -1).join(", ")} and ${splits.at(-1)}` : splits.join("");
  const [known, predicted] = [answers.filter((answer) => answer.known), answers.filter((answer) => !answer.known)];
  const isCalibrated = content.calibrated ?? true;
  const chip = isCalibrated ? null : html("span", { class: "chip", title: UNCALIBRATED }, "not calibrated");
  const meaning = isCalibrated
    ? "Not in the graph: the model's guesses. The percentage says how likely each is."
    : `Not in the graph: the model's guesses. ${UNCALIBRATED}`;
  if (!predictable) return [group(knownTitle(counts), true, `Computed from facts of the graph (${all}).`, known, 0, asked)];
  return [
    group(knownTitle(counts), true, `Facts of the graph prove these (${all}).`, known, 0, asked),
    group(`Predicted: ${number(counts.predicted)}`, false, meaning, predicted, known.length, asked, predicted.length > 0 && chip),
  ];
}

/** Finds the elements that show answers; returns a function for each of their states. */
export function makeAnswers(say) {
  const [place, line] = [byId("answers"), byId("summary")];
  let shown = null; // the query that the answers are for, and how long it took
  const busy = (is) => place.setAttribute("aria-busy", String(is));
  const replace = (text, ...children) => {
    busy(false);
    place.classList.remove("old");
    line.textContent = text;
    place.replaceChildren(...children);
  };
  return {
    busy() {
      busy(true);
      line.textContent = "Asking …";
    },
    show(content, query) {
      const counts = counted(content);
      shown = { query, duration: duration(content.milliseconds) };
      say(`${knownTitle(counts)}. Predicted: ${number(counts.predicted)}.`);
      const none =
        (content.predictable ?? true)
          ? "No answer is known, and none is likely enough. Ask for the best ten, or leave a condition out."
          : "The facts of the graph have no row for this query.";
      replace(
        shown.duration,
        ...content.notes.map((note) => html("p", { class: "note" }, note)),
        ...(content.answers.length ? groups(content, query) : [html("p", { class: "empty" }, none)]),
        ...(content.answers.length ? [downloads(content, query)] : []),
      );
    },
    /** Dims the answers while the text in the editor is another query. */
    compare(query) {
      if (shown === null) return;
      const isOld = query.trim() !== shown.query.trim();
      place.classList.toggle("old", isOld);
      line.textContent = isOld ? "Answers to the query before your change" : shown.duration;
    },
    fail(error, again) {
      shown = null;
      say(error.message);
      replace(
        "",
        html(
          "div",
          { class: "failure" },
          html("p", {}, error.message),
          error.passing && html("button", { type: "button", id: "again", onclick: again }, "Try again"),
        ),
      );
    },
    clear(text) {
      shown = null;
      replace("", html("p", { class: "empty" }, text));
    },
  };
}
