// One request: what was sent, what came back, and what was made of it.

import { get } from "./api.js";
import { colouredText, copy, diffText, download, el, eventList, jsonTree, legend, line, longText, PARSED, seconds, tags, vectorEvents, withEscapes } from "./dom.js";
import { resendForm } from "./resend.js";

export async function detailView(id, openPlayground) {
  const found = await get(`requests/${encodeURIComponent(id)}`);
  const { summary } = found;
  const running = summary.duration === null;
  return el("section", { class: "detail", "aria-label": `Request ${id}`, "data-id": id, "data-running": running },
    el("div", { class: "bar" },
      el("h2", {}, line(`${summary.api} · ${summary.model || summary.path}`, 120)), el("span", {}, tags(summary.outcome)),
      el("button", { type: "button", click: () => copy(asCurl(found)) }, "copy as curl"),
      el("button", { type: "button", click: () => copy(asVector(found)) }, "copy as test vector"),
      el("button", { type: "button", click: () => download(`request-${id}.jsonl`, asLines(found)) }, "download JSONL"),
      el("button", { type: "button", click: () => openPlayground(forPlayground(found)) }, "open in playground")),
    el("p", { class: "dim" }, facts(summary)),
    summary.resent_from && el("p", {}, "Sent again from ", el("a", { href: `#/requests/${summary.resent_from}` }, `request ${summary.resent_from}`), "."),
    summary.duration !== null && found.request.body.text && resendForm(id, summary),
    summary.error && el("p", { class: "bad" }, line(summary.error, 2000)),
    found.withheld && el("p", { class: "bad" }, `Nothing of its content was kept: ${found.withheld}.`),
    found.why_no_call && whyPane(found.why_no_call),
    timing(found.timing),
    el("div", { class: "attempts" }, found.attempts.map((attempt, index) => attemptPane(attempt, headings(found.attempts)[index], summary.duration === null))),
    el("div", { class: "panes" },
      el("div", {}, responsePane(found), requestPane(found), toolsPane(found)),
      el("div", {}, found.attempts.filter((attempt) => attempt.prompt.text).map(promptPane))));
}

function whyPane({ kind, reason, cure, dialect }) {
  const isCall = kind === "invalid";
  return el("div", { class: "why" },
    el("p", {}, el("strong", {}, isCall ? "What is wrong with the call: " : "Why there is no call: "), line(reason, 1000)),
    dialect && el("p", { class: "dim" }, line(dialect, 500)),
    cure && el("p", {}, el("strong", {}, "What helps: "), line(cure, 500)));
}

function facts(summary) {
  const cached = summary.cached_tokens ? ` (${summary.cached_tokens} cached)` : "";
  const tokens = summary.output_tokens === null ? "" : `${summary.input_tokens}${cached} → ${summary.output_tokens} tokens`;
  const parts = [new Date(summary.time * 1000).toLocaleString(), summary.upstream, summary.tool_calling, summary.dialect && `${summary.dialect} (${summary.dialect_reason || "set"})`, summary.streamed ? "streamed" : "in one piece", tokens, summary.duration === null ? `running for ${Math.floor(summary.elapsed)} s` : `status ${summary.status || "-"}, ${seconds(summary.duration)}`];
  return line(parts.filter(Boolean).join(" · "), 400);
}

function timing({ sent, first, duration }) {
  if (!duration || !sent.length) return null;
  const bar = el("div", { class: "timing", role: "img" });
  const labels = [];
  const part = (kind, from, to, label) => {
    if (to <= from) return;
    const span = el("span", { class: kind, title: `${label}: ${seconds(to - from)}` }, (to - from) / duration > 0.1 && `${label} ${seconds(to - from)}`);
    span.style.left = `${(100 * from) / duration}%`;
    span.style.width = `${(100 * (to - from)) / duration}%`;
    bar.append(span);
    labels.push(span.title);
  };
  part("prompt", 0, sent[0], "prompt");
  sent.forEach((at, index) => {
    const end = sent[index + 1] ?? duration;
    const start = Math.min(first[index] ?? end, end);
    part("waiting", at, start, index ? "second attempt, waiting" : "waiting");
    part("stream", start, end, "stream");
  });
  bar.setAttribute("aria-label", labels.join(", "));
  const kinds = [...new Set([...bar.children].map((part) => part.className))];
  return el("div", { class: "panel" }, el("h2", {}, "Time"), legend(kinds), bar);
}

// A second attempt and a second choice stand beside the first.
function headings(attempts) {
  const several = attempts.some((attempt) => attempt.choice);
  const count = attempts.filter((attempt) => !attempt.choice).length;
  let number = 0;
  return attempts.map((attempt) => {
    if (!attempt.choice) number += 1;
    const parts = [count > 1 && `attempt ${number}`, several && `choice ${attempt.choice}`].filter(Boolean);
    return `What the model wrote${parts.length ? ` (${parts.join(", ")})` : ""}`;
  });
}

function attemptPane(attempt, heading, running) {
  const text = colouredText(attempt.segments, attempt.left_out);
  const total = attempt.times.length;
  const label = el("span", { class: "dim" });
  const show = (value) => {
    text.showUntil(value);
    label.textContent = [`${value} of ${total} chunks`, seconds(attempt.times[Math.max(value - 1, 0)])].filter(Boolean).join(", ");
  };
  const range = el("input", { type: "range", min: 0, max: total, value: total, "aria-label": "Chunks over time", input: () => show(Number(range.value)) });
  const borders = el("input", { type: "checkbox", checked: true, change: () => text.classList.toggle("borders", borders.checked) });
  if (total) show(total);
  return el("div", { class: "panel attempt" },
    el("h2", {}, heading),
    attempt.reason && el("p", {}, "Why: ", line(attempt.reason, 1000)),
    attempt.error && el("p", { class: "bad" }, line(attempt.error, 1000)),
    attempt.front && el("p", { class: "why" }, line(attempt.front, 1000)),
    attempt.diff && changesView(attempt.diff),
    legend(PARSED.filter((kind) => attempt.segments.some((segment) => segment[1] === kind))),
    total > 0 && el("div", { class: "slider" }, range, label, el("label", {}, borders, "borders of chunks")),
    total > 0 ? text : el("p", { class: "dim" }, running ? "Nothing has come yet: the model still reads the prompt, or is loaded." : "The model wrote nothing."),
    el("h3", {}, "Events"),
    attempt.events.length ? eventList(attempt.events, attempt.events_left_out) : el("p", { class: "dim" }, running ? "No event yet." : "The client got nothing of this attempt."));
}

function changesView(changes) {
  const heading = el("h3", {}, "Changes from the attempt before");
  const shown = changes.some(([kind]) => kind !== "same") ? [legend(["removed", "added"]), diffText(changes)] : el("p", { class: "dim" }, "None: the model wrote the same text again.");
  return [heading, shown, el("h3", {}, "How it was read")].flat();
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function bodyView(shown) {
  const value = shown.left_out || shown.text.length > 300000 ? undefined : parsed(shown.text);
  return value === undefined ? longText(shown.text, shown.left_out) : jsonTree(value, 1);
}

function requestPane({ request }) {
  const query = request.query ? `?${request.query}` : "";
  const headers = request.headers.map(([name, value]) => `${name}: ${value}`).join("\n");
  return el("div", { class: "panel" }, el("h2", {}, "What the client sent"),
    el("p", {}, line(`${request.method} ${request.path}${query}`, 500)),
    el("details", {}, el("summary", {}, `${request.headers.length} headers`), longText(headers)), bodyView(request.body));
}

// Tools that run in the proxy have a category; those of the client have none.
function toolsPane({ tools }) {
  if (!tools.length) return null;
  const categories = [...new Set(tools.map((tool) => tool.category ?? ""))];
  const rows = categories.map((category) => el("tr", {},
    el("th", {}, line(category || "the client's", 60)),
    el("td", {}, line(tools.filter((tool) => (tool.category ?? "") === category).map((tool) => tool.name).join(", "), 4000))));
  return el("div", { class: "panel" }, el("h2", {}, `Offered tools: ${tools.length}`), el("table", { class: "categories" }, el("tbody", {}, rows)));
}

function promptPane(attempt, index) {
  const value = parsed(attempt.prompt.text);
  const messages = Array.isArray(value?.messages) ? value.messages : null;
  const texts = messages ? messages.map(message) : typeof value?.prompt === "string" ? [longText(value.prompt, 0, withEscapes)] : [];
  const pane = el("div", { class: "panel" }, el("h2", {}, `The prompt${index ? ` of attempt ${index + 1}` : ""}`), texts,
    el("details", {}, el("summary", {}, "the whole request"), bodyView(attempt.prompt)));
  if (pane.querySelector(".escaped")) pane.firstChild.after(legend(["escaped"]));
  return pane;
}

function message({ role, content }) {
  const parts = Array.isArray(content) ? content.map((part) => part?.text ?? JSON.stringify(part)) : [typeof content === "string" ? content : JSON.stringify(content ?? null)];
  return el("div", {}, el("div", { class: "role" }, line(String(role), 40)), longText(parts.join("\n"), 0, withEscapes));
}

function responsePane({ summary, response }) {
  const running = summary.duration === null;
  const state = [response.status ? `status ${response.status}` : "no status yet", running && "still running"].filter(Boolean).join(", ");
  const empty = running ? "Nothing yet." : "Nothing.";
  return el("div", { class: "panel", id: "got" }, el("h2", {}, "What the client got"),
    el("p", { class: "dim" }, state), response.messages.length ? response.messages.map((message) => messageView(message, response.messages.length > 1)) : el("p", { class: "dim" }, response.body.text ? "No message:" : empty),
    response.body.text && el("details", { open: !response.messages.length }, el("summary", {}, "as it was sent"), bodyView(response.body)));
}

function messageView(message, several) {
  const { text, reasoning, calls } = message;
  return el("div", { class: "message" },
    several && el("div", { class: "role" }, `choice ${message.choice}`),
    reasoning.text && el("details", {}, el("summary", {}, "reasoning"), longText(reasoning.text, reasoning.left_out)),
    text.text && longText(text.text, text.left_out),
    calls.map((call) => el("div", { class: "call" },
      el("div", {}, el("span", { class: "key name" }, line(call.name, 200)), call.error && el("span", { class: "bad" }, ` ${line(call.error, 500)}`)),
      longText(call.arguments.text, call.arguments.left_out))),
    message.calls_left_out > 0 && el("p", { class: "dim" }, `${message.calls_left_out} more calls are not shown`),
    !text.text && !calls.length && el("p", { class: "dim" }, "An empty message."),
    message.error && el("p", { class: "bad" }, line(message.error, 1000)),
    message.stop && el("p", { class: "dim" }, `ended: ${message.stop}`));
}

const modelText = (attempt) => attempt.segments.map(([, , text]) => text).join("");

function quoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function asCurl({ request }) {
  const query = request.query ? `?${request.query}` : "";
  const host = request.headers.find(([name]) => name === "host")?.[1] ?? location.host;
  const url = `${location.protocol}//${host}${encodeURI(request.path)}${query}`;
  // A header's name may have any character that a shell reads.
  const masked = request.headers.filter(([name, value]) => /^[a-z0-9-]+$/i.test(name) && /^([a-z]+ )?[*]{3}$/i.test(value) && name !== "cookie");
  const keys = masked.map(([name, value]) => ` -H "${name}: ${value.replace("***", "$KEY")}"`).join("");
  return `curl ${quoted(url)} -H 'content-type: application/json'${keys} -d ${quoted(request.body.text)}`;
}

const lastReply = (found) => found.attempts.findLast((attempt) => attempt.choice === 0);

function asVector(found) {
  const attempt = lastReply(found);
  const events = vectorEvents(attempt?.events ?? []);
  const name = `request ${found.summary.id}`;
  const tools = found.tools.length ? { tools: found.tools } : {};
  const options = found.summary.dialect ? { options: { dialect: found.summary.dialect } } : {};
  return JSON.stringify({ name, input: attempt ? modelText(attempt) : "", ...tools, ...options, events }, null, 2);
}

function asLines(found) {
  const { summary, request, attempts, response } = found;
  const rows = [{ type: "request", summary, request }, ...attempts.map((attempt) => ({ type: "attempt", ...attempt })), { type: "response", response }];
  return rows.map((row) => JSON.stringify(row)).join("\n") + "\n";
}

function forPlayground(found) {
  const attempt = lastReply(found);
  const settings = { ...found.settings, dialect: found.summary.dialect || found.settings?.dialect || "auto" };
  return { text: attempt ? modelText(attempt) : "", settings, tools: found.tools.length ? JSON.stringify(found.tools, null, 2) : "" };
}
