// The ranked answers, each with its mark, its probability and, opened, its explanation.

import { latest } from "./api.js";
import { byId, counted, html, percent } from "./dom.js";
import { explainIn } from "./explanation.js";
import { mark } from "./marks.js";

/** Gives an identifier as quiet text, with a link where it is an address of the web. */
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

function support(answer) {
  const parts = Object.entries(answer.support ?? {}).map(([name, value]) =>
    html("span", {}, html("i", {}, `?${name}`), ` ${value.label || value.entity}`),
  );
  return parts.length > 0 && html("span", { class: "support" }, parts);
}

/** Makes one answer; a click opens and closes its explanation. */
function row(answer, number, query) {
  const explain = latest((signal, element) => explainIn(element, query, answer.entity, signal));
  const panel = html("div", {
    class: "explanation",
    id: `why-${number}`,
    role: "region",
    "aria-label": `Why ${answer.label || answer.entity}`,
    hidden: true,
  });
  const button = html(
    "button",
    { type: "button", class: "answer", "aria-expanded": "false", "aria-controls": panel.id },
    html("span", { class: "label" }, answer.label || answer.entity),
    mark(answer.known),
    bar(answer.probability),
    html("span", { class: "probability" }, percent(answer.probability)),
  );
  const open = async () => {
    button.setAttribute("aria-expanded", "true");
    panel.hidden = false;
    panel.replaceChildren(html("p", { class: "busy" }, "Looking for the reasons …"));
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
    html("div", { class: "more" }, identifier(answer), support(answer)),
    panel,
  );
  item.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || panel.hidden) return;
    close();
    button.focus();
  });
  return item;
}

function summary({ answers, milliseconds }) {
  const known = answers.filter((answer) => answer.known).length;
  const time =
    milliseconds < 1000
      ? `${milliseconds < 10 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`
      : `${(milliseconds / 1000).toFixed(1)} s`;
  return `${counted(answers.length, "answer")}: ${known} known, ${answers.length - known} predicted · ${time}`;
}

function legend(splits) {
  const all = splits.length > 1 ? `${splits.slice(0, -1).join(", ")} and ${splits.at(-1)}` : splits.join("");
  return html(
    "dl",
    { class: "legend" },
    html("div", {}, html("dt", {}, mark(true)), html("dd", {}, `The facts of the graph prove it. What counts as known: ${all}.`)),
    html(
      "div",
      {},
      html("dt", {}, mark(false)),
      html("dd", {}, "They do not. The percentage is how probable it is that the complete graph would."),
    ),
  );
}

/** Shows the places where answers appear; gives functions for each state they can be in. */
export function makeAnswers(say) {
  const [place, line] = [byId("answers"), byId("summary")];
  const busy = (is) => place.setAttribute("aria-busy", String(is));
  return {
    busy() {
      busy(true);
      line.textContent = "Asking …";
    },
    show(content, query) {
      busy(false);
      line.textContent = summary(content);
      say(line.textContent);
      const none = "Nothing in the graph answers this, and nothing is probable enough. Ask for the best ten, or for less at once.";
      place.replaceChildren(
        ...content.notes.map((note) => html("p", { class: "note" }, note)),
        content.answers.length
          ? html(
              "ol",
              { class: "ranking" },
              content.answers.map((answer, i) => row(answer, i, query)),
            )
          : html("p", { class: "empty" }, none),
        legend(content.known_splits),
      );
    },
    fail(error, again) {
      busy(false);
      line.textContent = "";
      say(error.message);
      place.replaceChildren(
        html(
          "div",
          { class: "failure" },
          html("p", {}, error.message),
          error.passing && html("button", { type: "button", id: "again", onclick: again }, "Try again"),
        ),
      );
    },
    clear(text) {
      busy(false);
      line.textContent = "";
      place.replaceChildren(html("p", { class: "empty" }, text));
    },
  };
}
