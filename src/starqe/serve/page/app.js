// The page: joins the editor, the drawing, the answers and the address.

import { DEFAULTS, read, written } from "./address.js";
import { makeAnswers } from "./answers.js";
import { call, latest, onTokenWanted } from "./api.js";
import { addCompletion } from "./completion.js";
import { byId, counted, html } from "./dom.js";
import { drawIn } from "./drawing.js";
import { makeEditor } from "./editor.js";
import { addHelp } from "./help.js";
import { showRelations } from "./relations.js";
import { askForToken } from "./token.js";

const PAUSE = 200; // without typing, before the query is drawn
const SETTLED = 1200; // without typing, before a problem is shown: until then the user is still typing
const RUN_KEY = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘ ↵" : "Ctrl ↵";

let [timer, problemTimer] = [0, 0];
let hasRun = false;

const say = (text) => (byId("status").textContent = text);
const graph = drawIn(byId("drawing"));
const answers = makeAnswers(say);
const editor = makeEditor(() => {
  clearProblem();
  graph.old();
  answers.compare(editor.text);
  clearTimeout(timer);
  timer = setTimeout(check, PAUSE);
});

/** Returns the query and the options of the form. */
function asked() {
  const top = byId("by-top").checked ? Math.max(1, Math.round(byId("top").valueAsNumber) || DEFAULTS.top) : null;
  const share = byId("threshold").valueAsNumber / 100;
  return {
    query: editor.text,
    top,
    threshold: share >= 0 && share <= 1 ? share : DEFAULTS.threshold,
    knownOnly: byId("known-only").checked,
  };
}

function fill({ query, top, threshold, knownOnly }) {
  editor.text = query;
  byId(top === null ? "by-threshold" : "by-top").checked = true;
  byId("top").value = top ?? DEFAULTS.top;
  byId("threshold").value = Math.round(threshold * 1000) / 10;
  byId("known-only").checked = knownOnly;
}

function clearProblem() {
  clearTimeout(problemTimer);
  byId("problem").hidden = true;
  editor.unmark();
}

/** Shows an error in the query: below the editor, and at its position in the text. */
function showProblem(error) {
  const { place } = error;
  const suggestions = place?.suggestions ?? [];
  const words = [error.message];
  if (place) {
    editor.mark(place);
    words[0] = error.message.replace(` (line ${place.line}, column ${place.column})`, "");
    if (suggestions.length) words[0] = words[0].replace(/ (Did you mean|Write the identifier of one:) [^]*$/, "");
    words.unshift(
      html("button", { type: "button", class: "quiet", onclick: editor.goToMark }, `Line ${place.line}, column ${place.column}`),
      ": ",
    );
  }
  const replace = (text) => html("button", { type: "button", class: "suggestion", onclick: () => editor.replaceMark(text) }, shown(text));
  const parts = [html("p", {}, words)];
  if (suggestions.length > 0) parts.push(html("p", { class: "suggestions" }, "Did you mean ", suggestions.map(replace)));
  byId("problem").replaceChildren(...parts);
  byId("problem").hidden = false;
  graph.old();
}

/** Returns the label of a suggestion: without its quotes. */
function shown(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function showDrawing(drawing) {
  clearProblem();
  byId("shapes").hidden = drawing.nodes.length === 0; // a query that counts or sorts is not drawn
  graph.show(drawing);
}

const fetchCheck = latest((signal, query) => call("api/check", { body: { query }, signal }));
const fetchAnswers = latest((signal, body) => call("api/ask", { body, signal }));

async function check() {
  const query = editor.text;
  if (!query.trim()) {
    fetchCheck.abort();
    byId("shapes").hidden = true;
    return graph.show({ nodes: [], edges: [], conditions: [] });
  }
  try {
    const content = await fetchCheck(query);
    if (content && query === editor.text) showDrawing(content.drawing);
  } catch (error) {
    if (query !== editor.text || error.passing) return;
    clearTimeout(problemTimer);
    problemTimer = setTimeout(() => query === editor.text && showProblem(error), SETTLED - PAUSE);
  }
}

/** Asks the query of the form; `keep` adds it to the history of the browser. */
async function run(keep = true) {
  const { query, top, threshold, knownOnly } = asked();
  if (!query.trim()) return editor.area.focus();
  clearTimeout(timer);
  fetchCheck.abort();
  if (keep && written(asked()) !== location.hash) history.pushState(null, "", written(asked()));
  hasRun = true;
  answers.busy();
  try {
    const content = await fetchAnswers({ query, top, threshold, known_only: knownOnly });
    if (!content) return;
    if (query === editor.text) showDrawing(content.drawing);
    answers.show(content, query);
    bringIntoView(byId("found"));
  } catch (error) {
    if (error.passing) return answers.fail(error, () => run(false));
    if (query === editor.text) showProblem(error);
    answers.clear("The query cannot be answered yet: see the message below it.");
    say(error.message);
  }
}

/** Scrolls to an element that begins below the middle of the screen, as the answers do on a phone. */
function bringIntoView(element) {
  if (element.getBoundingClientRect().top > innerHeight / 2) element.scrollIntoView({ behavior: "smooth" });
}

async function copyLink() {
  history.replaceState(null, "", written(asked()));
  const copied = await navigator.clipboard?.writeText(location.href).then(
    () => true,
    () => false,
  );
  const text = copied ? "Link copied" : "The link is in the address bar";
  say(text);
  byId("copied").textContent = text;
  setTimeout(() => (byId("copied").textContent = ""), 2500);
}

async function showGraph() {
  const content = await call("api/graph");
  byId("graph-name").textContent = content.name;
  document.title = `${content.name} · starqe`;
  byId("graph-size").textContent = [
    counted(content.statements, "statement"),
    counted(content.entities, "entity", "entities"),
    counted(content.relations, "relation"),
  ].join(" · ");
  byId("version").textContent = content.version;
  await showRelations(content.relations, editor.insertName);
}

async function showExamples(first) {
  const { examples } = await call("api/examples");
  const choose = (query) => {
    fill({ ...asked(), query });
    run();
  };
  byId("examples").replaceChildren(
    ...examples.map(({ title, query }) =>
      html("li", {}, html("button", { type: "button", class: "example", title, onclick: () => choose(query) }, title)),
    ),
  );
  byId("examples").parentElement.hidden = examples.length === 0;
  const isWriting = document.activeElement === editor.area;
  if (first && examples.length && !editor.text && !isWriting) {
    editor.text = examples[0].query;
    check();
  }
}

function fromAddress() {
  const found = read(location.hash);
  if (!found) return false;
  fill(found);
  run(false);
  return true;
}

/** Fetches the initial content of the page; shows a message if the service cannot be reached. */
async function start(fresh) {
  try {
    await Promise.all([showGraph(), showExamples(fresh)]);
  } catch (error) {
    if (!hasRun) answers.fail(error, () => (answers.clear(byId("answers").dataset.empty), start(fresh)));
  }
}

onTokenWanted(askForToken);
addCompletion(editor, say);
addHelp(editor.area);
byId("run-key").textContent = RUN_KEY;
byId("answers").dataset.empty = byId("answers").textContent.trim();
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
byId("form").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    run();
  }
});
byId("options").addEventListener("change", () => hasRun && run());
byId("top").addEventListener("focus", () => (byId("by-top").checked = true));
byId("threshold").addEventListener("focus", () => (byId("by-threshold").checked = true));
byId("copy").addEventListener("click", copyLink);
addEventListener("popstate", fromAddress);
start(!fromAddress());
