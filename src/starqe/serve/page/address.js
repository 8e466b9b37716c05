// The query and the options in the address, after the "#": a link shares them, and no server's log keeps them.

export const DEFAULTS = { query: "", top: 10, threshold: 0.5, knownOnly: false };

/** Writes what is asked as the end of an address. */
export function written({ query, top, threshold, knownOnly }) {
  let text = `#q=${encodeURIComponent(query)}`;
  if (top === null) text += `&at=${threshold}`;
  else if (top !== DEFAULTS.top) text += `&top=${top}`;
  return knownOnly ? `${text}&known=1` : text;
}

/** Reads what an address asks; null where it asks nothing. */
export function read(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const query = fields.get("q");
  if (!query) return null;
  const top = Number.parseInt(fields.get("top"), 10);
  const at = Number.parseFloat(fields.get("at"));
  return {
    query,
    top: fields.has("at") ? null : top >= 1 ? top : DEFAULTS.top,
    threshold: at >= 0 && at <= 1 ? at : DEFAULTS.threshold,
    knownOnly: fields.get("known") === "1",
  };
}
