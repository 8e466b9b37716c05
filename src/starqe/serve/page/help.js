// How to write a query, in three lines: shown until the user closes it, and opened again by a button.

import { byId } from "./dom.js";

const KEY = "starqe-help";

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // the browser allows no storage: show it
  }
}

/** Shows the help unless the user has closed it before, and connects its buttons. */
export function addHelp(area) {
  const [box, toggle] = [byId("help"), byId("help-toggle")];
  const show = (is, keep = true) => {
    box.hidden = !is;
    toggle.setAttribute("aria-expanded", String(is));
    try {
      if (keep) localStorage.setItem(KEY, is ? "shown" : "hidden");
    } catch {
      // Then it lasts only until the page is closed.
    }
  };
  toggle.addEventListener("click", () => show(box.hidden));
  byId("help-close").addEventListener("click", () => {
    show(false);
    area.focus();
  });
  show(stored() !== "hidden", false);
}
