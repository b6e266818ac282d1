// Talks to the node. The token stays in this tab's session storage and goes out as a header only.

const BASE = new URL("../api/", document.baseURI);
const TOKEN = "sapwood-token";
const PAGE = 1000;
const MOST_PAGES = 20;
const PATIENCE = 60; // seconds for an answer: a line that is lost without a word would be waited for without end

export class ApiError extends Error {
  constructor(status, code, text) {
    super(text || `the node answered ${status}`);
    this.status = status;
    this.code = code;
  }

  get needsToken() {
    return (this.status === 401 || this.status === 403) && this.code !== "ROLE_NEEDED";
  }

  get isMissing() {
    return this.status === 404 || this.status === 405 || this.status === 501;
  }
}

let wanted = false; // a token: until somebody gives one nothing is asked again and again, for each would be a failed login

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (value) => {
    sessionStorage.setItem(TOKEN, value);
    wanted = false;
  },
};

let refused = () => {};

// Called once for each answer that says: not without a token.
export function whenRefused(call) {
  refused = call;
}

export function address(path, query = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, String(value));
  }
  return url;
}

// `body`: becomes JSON; `data`: goes out as it is.
async function send(path, { query, method = "GET", body, data, type = "", signal } = {}) {
  const headers = { Accept: "application/json" };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { method, headers, signal, cache: "no-store", credentials: "same-origin", redirect: "error" };
  if (body !== undefined) options.body = JSON.stringify(body);
  if (data !== undefined) {
    if (type) headers["Content-Type"] = type;
    options.body = data;
  }
  const answer = await fetch(address(path, query), options);
  if (answer.ok) return answer;
  const error = await errorOf(answer);
  if (error.needsToken) {
    wanted = true;
    refused(error);
  }
  throw error;
}

async function errorOf(answer) {
  const text = (await answer.text().catch(() => "")).slice(0, 2000);
  try {
    const found = JSON.parse(text);
    return new ApiError(answer.status, found.code ?? "", found.text ?? found.error ?? "");
  } catch {
    return new ApiError(answer.status, "", text.trim());
  }
}

export async function ask(path, options) {
  const answer = await send(path, options);
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

// Publishes a Blob as one message; resolves when it is on this node's disk.
export function publish(destination, data, type, query) {
  const path = `publish/${destination.split("/").map(encodeURIComponent).join("/")}`;
  return ask(path, { method: "POST", data: new Blob([data]), type, query });
}

// Every page of a list, `MOST_PAGES` at most: the first answer, with the items of all of them in it.
export async function askAll(path, name, { query, signal } = {}) {
  const found = await ask(path, { query: { ...query, limit: PAGE }, signal });
  for (let pages = 1; found?.next && pages < MOST_PAGES; pages += 1) {
    const page = await ask(path, { query: { ...query, limit: PAGE, after: found.next }, signal });
    found[name].push(...page[name]);
    Object.assign(found, { ...page, [name]: found[name] });
  }
  return found;
}

// Calls `take(object)` for each line of a stream until it ends; resolves then. Throws ApiError or TypeError, and
// AbortError where nothing has come for `silence` seconds.
export async function stream(path, { query, signal, silence }, take) {
  const flight = new AbortController();
  const end = () => flight.abort();
  signal.addEventListener("abort", end);
  let timer = 0;
  const heard = () => {
    clearTimeout(timer);
    if (silence) timer = setTimeout(end, silence * 1000);
  };
  try {
    heard();
    const answer = await send(path, { query, signal: flight.signal });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let kept = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const lines = (kept + value).split("\n");
      kept = lines.pop();
      for (const line of lines) {
        if (line.trim()) take(JSON.parse(line));
      }
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", end);
  }
}

// Asks again and again until stopped: `take(answer)` or `fail(error)`. Rests while the page is hidden.
// First when the caller is done: `options` may then use what the caller makes of what this returns.
// Law: one question is under way at a time. One that `soon` overtakes is given up: its answer is of before.
export function poll(path, seconds, options, take, fail, asking = ask) {
  let timer = 0;
  let flight = null;
  const again = () => {
    timer = setTimeout(once, seconds() * 1000);
  };
  async function once() {
    if (document.hidden || wanted) return again();
    const mine = (flight = new AbortController());
    const late = setTimeout(() => mine.abort(), PATIENCE * 1000);
    try {
      const found = await asking(path, { ...options(), signal: mine.signal });
      if (flight === mine) take(found);
    } catch (error) {
      if (flight === mine) fail(error);
    }
    clearTimeout(late);
    return flight === mine ? again() : undefined;
  }
  const stop = () => {
    clearTimeout(timer);
    flight?.abort();
    flight = null;
  };
  const soon = () => {
    stop();
    timer = setTimeout(once, 0);
  };
  soon();
  return { stop, soon };
}
