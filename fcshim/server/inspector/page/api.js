// Talks to the proxy. The key, where one is needed, stays in this tab.

import { el } from "./dom.js";

const KEY = "fcshim-key";

function headers(extra = {}) {
  const key = sessionStorage.getItem(KEY);
  return key ? { ...extra, authorization: `Bearer ${key}` } : extra;
}

export async function get(path, options = {}) {
  const response = await fetch(`/fcshim/api/${path}`, { ...options, headers: headers(options.headers) });
  if (response.status === 401) {
    await askForKey();
    return get(path, options);
  }
  const document = await response.json();
  if (!response.ok) throw new Error(document.error?.message ?? `status ${response.status}`);
  return document;
}

export function post(path, body, signal) {
  const type = { "content-type": "application/json" };
  return get(path, { method: "POST", body: JSON.stringify(body), headers: type, signal });
}

let asking = null;

function askForKey() {
  asking ??= new Promise((resolve) => {
    const input = el("input", { type: "password", "aria-label": "API key", autocomplete: "off" });
    const done = () => {
      sessionStorage.setItem(KEY, input.value.trim());
      box.remove();
      asking = null;
      resolve();
    };
    const box = el("dialog", {}, el("p", {}, "This proxy needs an API key (--api-key)."), input, el("button", { click: done }, "use"));
    input.addEventListener("keydown", (event) => event.key === "Enter" && done());
    box.addEventListener("cancel", (event) => event.preventDefault());
    document.body.append(box);
    box.showModal();
  });
  return asking;
}

// Calls `changed` with each list of summaries, and `connected` after each connection, when something may be missed.
export async function follow(changed, connected, lost) {
  for (;;) {
    try {
      const response = await fetch("/fcshim/api/events", { headers: headers() });
      if (response.ok) {
        connected();
        await read(response.body, changed);
      }
    } catch {
      // The proxy has stopped, or restarts.
    }
    lost();
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

async function read(body, changed) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    const parts = buffer.split("\n\n");
    buffer = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) changed(JSON.parse(part.slice(6)));
  }
}
