// Calls the service: JSON in and out, one kind of error, a token if the service needs one.

const TOKEN = "starqe-token";

/** An error of the service; `place` is its position in the query, or null. */
export class ServiceError extends Error {
  constructor(message, { status = 0, place = null } = {}) {
    super(message);
    this.status = status;
    this.place = place;
  }

  /** Whether the same request may succeed later. */
  get passing() {
    return this.status === 0 || this.status === 401 || this.status === 429 || this.status >= 500;
  }
}

let tokenInMemory = null; // if the browser allows no storage
let asking = null;
let askForToken = async () => null;

/** Sets the function that asks the user for a token: it is told whether one was refused, and returns a token or null. */
export function onTokenWanted(ask) {
  askForToken = ask;
}

function token() {
  try {
    return sessionStorage.getItem(TOKEN) ?? tokenInMemory;
  } catch {
    return tokenInMemory;
  }
}

function keepToken(value) {
  tokenInMemory = value;
  try {
    sessionStorage.setItem(TOKEN, value);
  } catch {
    // Then it lasts only until the page is closed.
  }
}

/** Calls the service, by POST if there is a body. Throws ServiceError, or AbortError if the signal aborts. */
export async function call(path, { body, signal } = {}) {
  for (;;) {
    const sent = token();
    const response = await send(path, body, signal, sent);
    if (response.status !== 401) return read(response);
    if (token() !== sent) continue; // another request has asked for a token in the meantime
    asking ??= askForToken(sent !== null).finally(() => (asking = null));
    const given = await asking;
    if (given === null) throw new ServiceError("This service needs a token.", { status: 401 });
    keepToken(given);
  }
}

async function send(path, body, signal, bearer) {
  const headers = { Accept: "application/json" };
  if (bearer !== null) headers.Authorization = `Bearer ${asBytes(bearer)}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: JSON.stringify(body),
      signal,
      credentials: "omit",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError("The service cannot be reached. Is it still running, and are you online?");
  }
}

/** Encodes a text for a header: one character for each byte of its UTF-8. */
const asBytes = (text) => String.fromCharCode(...new TextEncoder().encode(text));

async function read(response) {
  const content = await response.json().catch(() => null);
  if (response.ok && content !== null) return content;
  const error = content?.error ?? {};
  const message = error.message ?? `The service answered ${response.status} and did not say why.`;
  const place = error.offset === undefined || error.offset === null ? null : error;
  throw new ServiceError(message, { status: response.status, place });
}

/** Returns a function whose newer call aborts the older one. It gets a signal first, and an aborted call returns undefined. */
export function latest(work) {
  let controller = null;
  const run = async (...values) => {
    controller?.abort();
    const current = (controller = new AbortController());
    try {
      return await work(current.signal, ...values);
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      throw error;
    }
  };
  run.abort = () => controller?.abort();
  return run;
}
