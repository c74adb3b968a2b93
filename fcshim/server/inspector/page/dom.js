// Builds elements. Rule: text from anywhere becomes text nodes only; control and bidi characters are made visible.

const STEP = 4000;
const NEXT = 100000;

export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// C0 but tab and line feed, DEL, C1, bidi and zero-width characters, line separators, tags, lone surrogates.
const UNSAFE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\p{Cs}/gu;

export function visible(text) {
  return text.replace(UNSAFE, (character) => {
    const code = character.codePointAt(0);
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `⟦U+${code.toString(16).toUpperCase().padStart(4, "0")}⟧`;
  });
}

// One line of at most `limit` characters.
export function line(text, limit = 200) {
  const cut = text.length > limit ? text.slice(0, limit) + "…" : text;
  return visible(cut).replaceAll("\n", "␊").replaceAll("\t", " ");
}

// A text whose rest comes on demand: a browser needs seconds to lay out a line of megabytes.
export function longText(text, leftOut = 0, decorate = (part) => [visible(part)]) {
  const box = el("div", { class: "raw", tabindex: 0 });
  let shown = 0;
  const more = el("button", { type: "button", click: () => extend(NEXT) });
  const extend = (count) => {
    more.remove();
    box.append(...decorate(text.slice(shown, shown + count)));
    shown += count;
    if (shown < text.length) {
      more.textContent = `more (${(text.length - shown).toLocaleString()} characters)`;
      box.append(more);
    } else if (leftOut) {
      box.append(el("div", { class: "dim" }, `${leftOut.toLocaleString()} more characters are not shown`));
    }
  };
  extend(STEP);
  return box;
}

// What the shim escaped in a prompt has an underscore after the bracket of its marker.
export function withEscapes(part) {
  const nodes = [];
  let end = 0;
  for (const match of part.matchAll(/[<[][|/]{0,2}_[\w|▁:.-]{1,60}/g)) {
    nodes.push(visible(part.slice(end, match.index)));
    nodes.push(el("span", { class: "escaped", title: "escaped" }, visible(match[0])));
    end = match.index + match[0].length;
  }
  nodes.push(visible(part.slice(end)));
  return nodes;
}

// JSON that unfolds level by level.
export function jsonTree(value, open = 1) {
  if (value === null || typeof value !== "object") return leaf(value);
  const entries = Array.isArray(value) ? value.map((item, index) => [String(index), item]) : Object.entries(value);
  const kind = Array.isArray(value) ? `[ ${entries.length} ]` : `{ ${entries.length} }`;
  const box = el("details", { class: "json" }, el("summary", {}, kind));
  let shown = 0;
  const more = el("button", { type: "button", click: () => extend() });
  const extend = () => {
    more.remove();
    for (const [name, item] of entries.slice(shown, shown + 100)) {
      const label = el("span", { class: "dim" }, line(name, 80) + ": ");
      const inner = jsonTree(item, open - 1);
      if (inner.tagName === "DETAILS") inner.querySelector("summary").prepend(label);
      else inner.prepend(label);
      box.append(inner);
    }
    shown += 100;
    if (shown < entries.length) {
      more.textContent = `more (${entries.length - shown})`;
      box.append(more);
    }
  };
  box.addEventListener("toggle", () => box.open && !shown && extend());
  if (open > 0) {
    box.open = true;
    extend();
  }
  return box;
}

function leaf(value) {
  if (typeof value !== "string") return el("div", { class: "leaf json" }, JSON.stringify(value));
  if (value.length <= 2000) return el("div", { class: "leaf json" }, visible(JSON.stringify(value)));
  return el("div", { class: "leaf" }, longText(value));
}

export function tags(words) {
  return words.flatMap((word) => [el("span", { class: `tag ${word}` }, word), " "]);
}

export function seconds(value) {
  if (value === null || value === undefined) return "";
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(1)} s`;
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    note("copied");
  } catch {
    const area = el("textarea", { rows: 14, readonly: true });
    area.value = text;
    const close = el("button", { click: () => box.remove() }, "close");
    const box = el("dialog", {}, el("p", {}, "Copy this text:"), area, close);
    document.body.append(box);
    box.showModal();
    area.select();
  }
}

export function note(text) {
  const live = document.getElementById("live");
  live.textContent = text;
}

export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// The events in the format of tests/parse/vectors: joined texts and whole calls.
export function vectorEvents(events) {
  const result = [];
  const join = (kind, text) => {
    const last = result.at(-1);
    if (last?.[kind] !== undefined) last[kind] += text;
    else result.push({ [kind]: text });
  };
  for (const { event } of events) {
    if (event.type === "text" || event.type === "reasoning") join(event.type, event.text);
    else if (event.type === "tool_call_end" && event.error) result.push({ call: event.tool_call_name, error: event.error.kind });
    else if (event.type === "tool_call_end") result.push({ call: event.tool_call_name, arguments: event.tool_call_arguments_complete });
    else if (event.type === "stop") result.push({ stop: event.stop_reason });
  }
  return result;
}

const MEANINGS = {
  text: "the answer, as the client gets it",
  reasoning: "reasoning, apart from the answer",
  marker: "markup around a call: not sent on",
  name: "the name of the called tool",
  arguments: "arguments, as the model wrote them",
  repaired: "arguments that were mended",
  dropped: "read as nothing, or a call with an error",
  removed: "only in the attempt before",
  added: "only in this attempt",
  prompt: "until the request went upstream",
  waiting: "until the first chunk came",
  stream: "while the reply came",
  escaped: "a marker in other people's text, escaped",
};
export const PARSED = ["text", "reasoning", "marker", "name", "arguments", "repaired", "dropped"];

// What each colour means; `kinds` are those that occur.
export function legend(kinds = PARSED) {
  return el("div", { class: "legend" }, kinds.map((kind) => el("span", { class: "entry" }, el("span", { class: `key ${kind}` }, kind), ` ${MEANINGS[kind]}`)));
}

// What two texts have in common, and where they differ.
export function diffText(changes) {
  return el("div", { class: "raw diff", tabindex: 0 }, changes.map(([kind, text]) => {
    const shown = kind === "same" && text.length > 2 * STEP ? `${text.slice(0, STEP)}\n[${(text.length - 2 * STEP).toLocaleString()} equal characters]\n${text.slice(-STEP)}` : text;
    const part = shown.length > NEXT ? shown.slice(0, NEXT) : shown;
    return el(kind === "same" ? "span" : kind === "added" ? "ins" : "del", { class: kind }, visible(part), part.length < shown.length && moreOf(shown, NEXT));
  }));
}

// Segments are [chunk, kind, text]; the first of each chunk gets a border. They are added in parts.
export function colouredText(segments, leftOut = 0) {
  const box = el("div", { class: "raw borders", tabindex: 0 });
  let shown = 0;
  let until = Infinity;
  const more = el("button", { type: "button", click: () => extend(5000) });
  const extend = (count) => {
    more.remove();
    let last = shown ? segments[shown - 1][0] : -1;
    for (const [chunk, kind, text] of segments.slice(shown, shown + count)) {
      const cut = text.length > NEXT;
      const part = el("span", { class: kind + (chunk !== last ? " b" : "") }, visible(cut ? text.slice(0, STEP) : text));
      if (cut) part.append(moreOf(text));
      part.dataset.chunk = chunk;
      part.classList.toggle("later", chunk >= until);
      box.append(part);
      last = chunk;
    }
    shown += count;
    if (shown < segments.length) {
      more.textContent = `more (${segments.length - shown} pieces)`;
      box.append(more);
    } else if (leftOut) {
      box.append(el("div", { class: "dim" }, `${leftOut.toLocaleString()} more characters are not shown`));
    }
  };
  extend(2000);
  box.showUntil = (count) => {
    until = count;
    for (const part of box.querySelectorAll("[data-chunk]")) part.classList.toggle("later", Number(part.dataset.chunk) >= count);
  };
  return box;
}

function moreOf(text, from = STEP) {
  let at = from;
  const button = el("button", {
    type: "button",
    click: () => {
      button.before(visible(text.slice(at, at + NEXT)));
      at += NEXT;
      if (at >= text.length) button.remove();
    },
  }, "more");
  return button;
}

export function eventList(events, leftOut = 0, unit = (at) => seconds(at)) {
  const list = el("ul", { class: "events", tabindex: 0 });
  let shown = 0;
  const more = el("button", { type: "button", click: () => extend() });
  const extend = () => {
    more.remove();
    for (const { at, event } of events.slice(shown, shown + 300)) {
      const { type, ...fields } = event;
      const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== ""));
      const limit = type.endsWith("_end") ? 2000 : 200; // a whole call, or one of many pieces
      const body = el("span", { class: "body" }, el("b", {}, type), " ", line(JSON.stringify(given), limit));
      list.append(el("li", {}, el("time", {}, unit(at)), body));
    }
    shown += 300;
    if (shown < events.length) {
      more.textContent = `more (${events.length - shown} events)`;
      list.append(more);
    } else if (leftOut) list.append(el("li", { class: "dim" }, `${leftOut} more events are not shown`));
  };
  extend();
  return list;
}
