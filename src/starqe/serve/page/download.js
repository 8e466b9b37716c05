// Answers as a file: CSV for tables, JSON for programs.

import { html } from "./dom.js";

const field = (value) => (/[",\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));

/** Writes answers as CSV: the first column, its label, whether it is known, its probability, and the further columns. */
export function csv({ columns, answers }) {
  const [target, ...others] = columns;
  const rows = answers.map((answer) => [
    answer.entity,
    answer.label,
    answer.known ? "known" : "predicted",
    answer.probability,
    ...others.map((name) => answer.bindings[name]?.entity ?? ""),
  ]);
  return [[target, "label", "status", "probability", ...others], ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

/** Writes answers as JSON, with the query that they answer. */
export function json({ columns, known_splits, calibrated, counts, notes, answers }, query) {
  return JSON.stringify({ query, columns, known_splits, calibrated, counts, notes, answers }, null, 2);
}

/** Makes the buttons that save the answers to a query. */
export function downloads(content, query) {
  const save = (text, type, name) => {
    const address = URL.createObjectURL(new Blob([text], { type }));
    html("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };
  const button = (word, action) => html("button", { type: "button", class: "quiet", "aria-label": `Download ${word}`, onclick: action }, word);
  return html(
    "p",
    { class: "downloads" },
    "Download ",
    button("CSV", () => save(csv(content), "text/csv", "answers.csv")),
    " ",
    button("JSON", () => save(json(content, query), "application/json", "answers.json")),
  );
}
