// Asks the user for the token of the service.

import { byId } from "./dom.js";

/** Opens the dialogue; returns the token, or null if the user closes it. */
export function askForToken(refused) {
  const dialog = byId("token-dialog");
  const input = byId("token");
  byId("token-refused").hidden = !refused;
  input.value = "";
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "use" && input.value ? input.value : null), { once: true });
    dialog.returnValue = "";
    dialog.showModal();
    input.focus();
  });
}
