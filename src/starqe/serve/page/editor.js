// The query as text: a plain textarea over a mirror of its text, which carries colours, line numbers and the place of an error.
//
// The mirror sets the height of the sheet, and the sheet scrolls as a whole, so the two stay aligned.

import { byId, html } from "./dom.js";

const TOKEN = new RegExp(
  [
    /(?<comment>#[^\n]*)/,
    /(?<iri><[^\s<>"{}|^`\\]*>)/,
    /(?<string>"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)/,
    /(?<variable>[?$]\w+)/,
    /(?<sign><<\(?|\)?>>|\{\||\|\}|[{}.;,[\]])/,
    /(?<path>[/|])/,
    /(?<name>[\p{L}\w.-]*:[\p{L}\w.%-]*)/,
    /(?<keyword>\b(?:SELECT|DISTINCT|REDUCED|ASK|CONSTRUCT|DESCRIBE|WHERE|PREFIX|BASE|VERSION|FILTER|NOT|EXISTS|UNION|MINUS|OPTIONAL|VALUES|UNDEF|IN|BIND|AS|SERVICE|ORDER|GROUP|BY|HAVING|LIMIT|OFFSET)\b)/,
    /[\p{L}\w]+/,
  ]
    .map((part) => part.source)
    .join("|"),
  "giu",
);

/** Returns the tokens of a text that have a kind: [{kind, start, end}]. */
export function tokens(text) {
  const found = [];
  for (const match of text.matchAll(TOKEN)) {
    const kind = Object.entries(match.groups).find(([, value]) => value !== undefined)?.[0];
    if (kind) found.push({ kind, start: match.index, end: match.index + match[0].length });
  }
  return found;
}

/** Returns the string at the caret: {start, end, prefix}, or null. */
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

/** Writes a name as a string of the query. */
export const quoted = (text) => `"${text.replace(/[\\"]/g, "\\$&")}"`;

/** Returns the index of a character in a string of JavaScript, which counts some characters twice. */
function placeOf(text, characters) {
  let place = 0;
  for (const character of text) {
    if (characters-- <= 0) break;
    place += character.length;
  }
  return place;
}

/** Creates the editor. Returns functions to read and write its text, and to mark and unmark an error. */
export function makeEditor(onChange) {
  const [area, mirror] = [byId("query"), byId("mirror")];
  let wrong = null; // [start, end]

  const render = () => {
    const text = area.value;
    const cuts = tokens(text);
    const borders = new Set([0, text.length, ...cuts.flatMap(({ start, end }) => [start, end]), ...(wrong ?? [])]);
    for (let i = text.indexOf("\n"); i >= 0; i = text.indexOf("\n", i + 1)) borders.add(i).add(i + 1);
    const places = [...borders].sort((a, b) => a - b);
    const lines = [html("div", { class: "line" })];
    let token = 0;
    places.forEach((start, i) => {
      while (token < cuts.length && cuts[token].end <= start) token++;
      const kind = token < cuts.length && cuts[token].start <= start ? cuts[token].kind : null;
      const end = places[i + 1] ?? start;
      const isWrong = wrong !== null && start >= wrong[0] && start < wrong[1];
      if (wrong !== null && wrong[0] === wrong[1] && start === wrong[0]) lines.at(-1).append(html("span", { class: "wrong here" }));
      if (text[start] === "\n") lines.push(html("div", { class: "line" }));
      else if (end > start) {
        const piece = text.slice(start, end);
        const classes = [kind, isWrong && "wrong"].filter(Boolean).join(" ");
        lines.at(-1).append(classes ? html("span", { class: classes }, piece) : piece);
      }
    });
    mirror.replaceChildren(...lines);
  };

  area.addEventListener("input", () => {
    wrong = null;
    render();
    onChange();
  });
  render();

  const replace = (text, start, end) => {
    area.focus();
    area.setRangeText(text, start, end, "end");
    area.dispatchEvent(new Event("input", { bubbles: true }));
  };

  return {
    area,
    replace,
    get text() {
      return area.value;
    },
    set text(text) {
      area.value = text;
      wrong = null;
      render();
    },
    /** Marks the characters from an offset on, as the service counts them. */
    mark({ offset, length }) {
      const start = placeOf(area.value, offset);
      wrong = [start, placeOf(area.value, offset + length)];
      render();
      area.setAttribute("aria-invalid", "true");
    },
    unmark() {
      if (wrong !== null) {
        wrong = null;
        render();
      }
      area.removeAttribute("aria-invalid");
    },
    /** Replaces the marked text. */
    replaceMark(text) {
      if (wrong === null) return;
      replace(text, ...wrong);
    },
    /** Writes a name in quotes at the caret: in place of the string there, or with space around it. */
    insertName(name) {
      const [start, end] = [area.selectionStart, area.selectionEnd];
      const string = start === end ? stringAt(area.value, start) : null;
      if (string) return replace(quoted(name), string.start, string.end);
      const before = start > 0 && !/\s/.test(area.value[start - 1]) ? " " : "";
      const after = /\s/.test(area.value[end] ?? "") ? "" : " ";
      replace(before + quoted(name) + after, start, end);
    },
    /** Moves the caret to the marked place. */
    goToMark() {
      area.focus();
      if (wrong !== null) area.setSelectionRange(...wrong);
    },
    /** Returns the box on the screen of the character at a place. */
    boxOf(place) {
      for (const line of mirror.children) {
        const length = line.textContent.length;
        if (place > length) {
          place -= length + 1;
          continue;
        }
        const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
        for (let node = walker.nextNode(); node; node = walker.nextNode()) {
          if (place < node.length) {
            const range = document.createRange();
            range.setStart(node, place);
            range.setEnd(node, place + 1);
            return range.getBoundingClientRect();
          }
          place -= node.length;
        }
        return line.getBoundingClientRect();
      }
      return mirror.getBoundingClientRect();
    },
  };
}
