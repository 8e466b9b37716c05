// The relations of the graph, the most frequent first: a list to look through, to search, and to insert from.

import { call, latest } from "./api.js";
import { byId, counted, html } from "./dom.js";

const MOST = 100; // as many as the service returns at once
const PAUSE = 120;

/** Describes how often a relation is used: in statements, or else in qualifiers. */
export const used = ({ statements, qualifiers }) =>
  statements || !qualifiers ? counted(statements, "statement") : counted(qualifiers, "qualifier");

/** Shows the relations; a click passes the text for one to `insert`. `total` is how many the graph has. */
export async function showRelations(total, insert) {
  const [list, more, filter] = [byId("relations"), byId("relations-more"), byId("relations-filter")];
  const find = latest((signal, text) => call(`api/relations?count=${MOST}&prefix=${encodeURIComponent(text)}`, { signal }));

  const show = async () => {
    const text = filter.value.trim();
    const content = await find(text);
    if (!content) return;
    list.replaceChildren(
      ...content.relations.map((relation) =>
        html(
          "li",
          {},
          html(
            "button",
            { type: "button", class: "relation-button", title: `Insert "${relation.name}"`, onclick: () => insert(relation.name) },
            html("span", { class: "label" }, relation.label),
            html("span", { class: "count" }, used(relation)),
          ),
        ),
      ),
    );
    const shown = content.relations.length;
    more.hidden = shown > 0 && (text !== "" || shown === total);
    more.textContent = shown ? `The ${shown} most frequent of ${total.toLocaleString("en")}. Search for the others.` : "No relation found.";
  };

  let timer = 0;
  filter.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => show().catch(() => {}), PAUSE);
  });
  await show();
  byId("relations-box").hidden = total === 0;
}
