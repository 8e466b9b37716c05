// Completes names while one types inside of quotes: a list under the word, by arrow keys, Enter, Tab and Escape.

import { call, latest } from "./api.js";
import { byId, counted, html } from "./dom.js";
import { quoted, stringAt, tokens } from "./editor.js";
import { used } from "./relations.js";

const PAUSE = 120;
const COUNT = 8;
const OTHERS = 3; // suggestions of the other kind, after those of the kind that fits here
const TERMS = ["string", "variable", "iri", "name"];
const RELATION_AFTER = { ";": 0, "{|": 0, ">>": 0, "[": 0 }; // the number of names between a sign and a relation; else 1

/** Returns whether a place of a query is that of a relation, by the names since the last sign. */
export function isRelationAt(text, place) {
  let names = 0;
  let joined = false; // the part of a path is joined to the one before it: both are one relation
  for (const { kind, start, end } of tokens(text.slice(0, place)).reverse()) {
    if (kind === "path") joined = true;
    else if (TERMS.includes(kind)) {
      if (!joined) names++;
      joined = false;
    }
    else if (kind === "sign") return names === (RELATION_AFTER[text.slice(start, end)] ?? 1) && text.slice(start, end) !== ",";
    else if (kind !== "comment") return false;
  }
  return false;
}

/** Finds what a prefix may mean: names of the kind that fits here, then some of the other kind. */
async function suggestions(signal, prefix, relationsFirst) {
  const kinds = relationsFirst ? ["relations", "entities"] : ["entities", "relations"];
  const find = async (kind) => (await call(`api/${kind}?count=${COUNT}&prefix=${encodeURIComponent(prefix)}`, { signal }))[kind];
  const [expected, other] = await Promise.all(kinds.map(find));
  return [...expected, ...other.slice(0, expected.length ? OTHERS : COUNT)];
}

/** Returns what is shown next to a label: how often a relation is used, or the identifier of an entity. */
const beside = (option) => (option.statements !== undefined ? `relation, ${used(option)}` : option.entity !== option.label && option.entity);

/** Adds completion to an editor; `say` tells a reader who does not see the list how long it is. */
export function addCompletion(editor, say) {
  const list = byId("completion");
  const area = editor.area;
  let [options, active, timer] = [[], -1, 0];

  const find = latest(suggestions);

  const close = () => {
    clearTimeout(timer);
    find.abort();
    [options, active] = [[], -1];
    list.hidden = true;
    list.replaceChildren();
    for (const name of ["role", "aria-expanded", "aria-controls", "aria-activedescendant"]) area.removeAttribute(name);
  };

  const activate = (number) => {
    active = number;
    [...list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === active)));
    const chosen = list.children[active];
    if (!chosen) return area.removeAttribute("aria-activedescendant");
    area.setAttribute("aria-activedescendant", chosen.id);
    chosen.scrollIntoView({ block: "nearest" });
  };

  const accept = (number) => {
    const place = stringAt(area.value, area.selectionStart);
    const chosen = options[number];
    close();
    if (place && chosen) editor.replace(quoted(chosen.name), place.start, place.end);
  };

  const open = (found, start) => {
    options = found;
    if (!options.length) return close();
    list.replaceChildren(
      ...options.map((option, i) =>
        html(
          "li",
          {
            role: "option",
            id: `completion-${i}`,
            "aria-selected": "false",
            onmousedown: (event) => event.preventDefault(),
            onclick: () => accept(i),
          },
          html("span", { class: "label" }, option.label),
          html("span", { class: "identifier" }, beside(option)),
        ),
      ),
    );
    const [box, around] = [editor.boxOf(start), list.parentElement.getBoundingClientRect()];
    list.hidden = false;
    list.style.top = `${box.bottom - around.top + 4}px`;
    list.style.left = `${Math.max(0, Math.min(box.left - around.left, around.width - list.offsetWidth))}px`;
    area.setAttribute("role", "combobox");
    area.setAttribute("aria-expanded", "true");
    area.setAttribute("aria-controls", list.id);
    activate(0);
    say(`${counted(options.length, "suggestion")}. Arrow keys choose, Enter or Tab takes one.`);
  };

  const look = () => {
    const place = stringAt(area.value, area.selectionStart);
    if (!place || !place.prefix.trim() || area.selectionStart !== area.selectionEnd) return close();
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const found = await find(place.prefix, isRelationAt(area.value, place.start)).catch(() => null);
      if (found && document.activeElement === area) open(found, place.start);
    }, PAUSE);
  };

  area.addEventListener("input", (event) => (event.isTrusted ? look() : close()));
  area.addEventListener("blur", close);
  area.addEventListener("click", close);
  area.addEventListener("keydown", (event) => {
    if (list.hidden || event.isComposing) return;
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey;
    if (event.key in steps) activate((active + steps[event.key] + options.length) % options.length);
    else if (["Enter", "Tab"].includes(event.key) && isPlain) accept(active);
    else if (event.key === "Escape") close();
    else {
      if (["Tab", "Enter", "ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) close();
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });
  byId("editor").addEventListener("scroll", close);
}
