// The query and the options in the address, after the "#": a link shares them, and no server's log keeps them.

export const DEFAULTS = { query: "", top: 10, threshold: 0.5, knownOnly: false };

/** Writes the query and the options as the fragment of a URL. */
export function written({ query, top, threshold, knownOnly }) {
  let text = `#q=${encodeURIComponent(query)}`;
  if (top === null) text += `&at=${threshold}`;
  else if (top !== DEFAULTS.top) text += `&top=${top}`;
  return knownOnly ? `${text}&known=1` : text;
}

/** Reads the query and the options from a fragment; null if there is no query. */
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
