// Completes labels while one types inside of quotes: a list box under the word, by arrow keys, Enter and Escape.

import { call, latest } from "./api.js";
import { byId, counted, html } from "./dom.js";
import { tokens } from "./editor.js";

const PAUSE = 120;
const COUNT = 8;

/** Gives the string that the caret stands in: {start, end, prefix}, or null. */
export function stringAt(text, caret) {
  const found = tokens(text).find(({ kind, start, end }) => kind === "string" && start < caret && caret <= end);
  if (!found) return null;
  const quote = text[found.start];
  const closed = found.end - found.start > 1 && text[found.end - 1] === quote;
  if (closed && caret === found.end) return null;
  // What follows up to the next quote belongs to this string, unless it ends in space: then that quote opens the next string.
  const rest = closed ? text.slice(caret, found.end - 1) : "";
  const whole = closed && (rest === "" || /\S$/.test(rest));
  return { start: found.start, end: whole ? found.end : caret, prefix: text.slice(found.start + 1, caret).replace(/\\(.)/g, "$1") };
}

const quoted = (text) => `"${text.replace(/[\\"]/g, "\\$&")}"`;

/** Adds completion to an editor; `say` tells a reader who does not see the list how long it is. */
export function addCompletion(editor, say) {
  const list = byId("completion");
  const area = editor.area;
  let [options, active, timer] = [[], -1, 0];

  const find = latest((signal, prefix) => call(`api/entities?count=${COUNT}&prefix=${encodeURIComponent(prefix)}`, { signal }));

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
    if (!place || !chosen) return;
    const alone = chosen.alone ? chosen.label || chosen.entity : chosen.entity;
    area.focus();
    area.setRangeText(quoted(alone), place.start, place.end, "end");
    area.dispatchEvent(new Event("input", { bubbles: true }));
  };

  const open = (found, start) => {
    options = found.map((option) => ({ ...option, alone: found.filter((other) => other.label === option.label).length === 1 }));
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
          html("span", { class: "label" }, option.label || option.entity),
          option.label && option.label !== option.entity && html("span", { class: "identifier" }, option.entity),
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
    activate(-1);
    say(`${counted(options.length, "label")}. Arrow keys choose.`);
  };

  const look = () => {
    const place = stringAt(area.value, area.selectionStart);
    if (!place || !place.prefix.trim() || area.selectionStart !== area.selectionEnd) return close();
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const content = await find(place.prefix).catch(() => null);
      if (content && document.activeElement === area) open(content.entities, place.start);
    }, PAUSE);
  };

  area.addEventListener("input", (event) => (event.isTrusted ? look() : close()));
  area.addEventListener("blur", close);
  area.addEventListener("click", close);
  area.addEventListener("keydown", (event) => {
    if (list.hidden || event.isComposing) return;
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps)
      activate((active + steps[event.key] + options.length + (active < 0 && event.key === "ArrowUp" ? 1 : 0)) % options.length);
    else if (event.key === "Enter" && active >= 0 && !event.ctrlKey && !event.metaKey) accept(active);
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
