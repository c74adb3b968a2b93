// One request: what was sent, what came back, and what was made of it.

import { get } from "./api.js";
import { colouredText, copy, download, el, eventList, jsonTree, legend, line, longText, seconds, tags, vectorEvents, withEscapes } from "./dom.js";

export async function detailView(id, openPlayground) {
  const found = await get(`requests/${encodeURIComponent(id)}`);
  const { summary } = found;
  return el("section", { class: "detail", "aria-label": `Request ${id}` },
    el("div", { class: "bar" },
      el("h2", {}, line(`${summary.api} · ${summary.model || summary.path}`, 120)), el("span", {}, tags(summary.outcome)),
      el("button", { type: "button", click: () => copy(asCurl(found)) }, "copy as curl"),
      el("button", { type: "button", click: () => copy(asVector(found)) }, "copy as test vector"),
      el("button", { type: "button", click: () => download(`request-${id}.jsonl`, asLines(found)) }, "download JSONL"),
      el("button", { type: "button", click: () => openPlayground(forPlayground(found)) }, "open in playground")),
    el("p", { class: "dim" }, facts(summary)),
    summary.error && el("p", { class: "bad" }, line(summary.error, 2000)),
    found.withheld && el("p", { class: "bad" }, `Nothing of its content was kept: ${found.withheld}.`),
    found.why_no_call && el("p", { class: "why" }, el("strong", {}, "Why there is no call: "), line(found.why_no_call, 1000)),
    timing(found.timing),
    el("div", { class: "attempts" }, found.attempts.map((attempt, index) => attemptPane(attempt, headings(found.attempts)[index]))),
    el("div", { class: "panes" }, requestPane(found), toolsPane(found), ...found.attempts.filter((attempt) => attempt.prompt.text).map(promptPane), responsePane(found)));
}

function facts(summary) {
  const cached = summary.cached_tokens ? ` (${summary.cached_tokens} cached)` : "";
  const tokens = summary.output_tokens === null ? "" : `${summary.input_tokens}${cached} → ${summary.output_tokens} tokens`;
  const parts = [new Date(summary.time * 1000).toLocaleString(), summary.upstream, summary.tool_calling, summary.dialect && `${summary.dialect} (${summary.dialect_reason || "set"})`, summary.streamed ? "streamed" : "in one piece", tokens, `status ${summary.status || "-"}`];
  return line(parts.filter(Boolean).join(" · "), 400);
}

function timing({ sent, first, duration }) {
  if (!duration || !sent.length) return null;
  const bar = el("div", { class: "timing", role: "img" });
  const labels = [];
  const part = (kind, from, to, label) => {
    if (to <= from) return;
    const span = el("span", { class: kind, title: `${label}: ${seconds(to - from)}` }, `${label} ${seconds(to - from)}`);
    span.style.left = `${(100 * from) / duration}%`;
    span.style.width = `${(100 * (to - from)) / duration}%`;
    bar.append(span);
    labels.push(span.title);
  };
  part("t0", 0, sent[0], "prompt");
  sent.forEach((at, index) => {
    const end = sent[index + 1] ?? duration;
    const start = Math.min(first[index] ?? end, end);
    part("t1", at, start, index ? "second attempt, waiting" : "waiting");
    part("t2", start, end, "stream");
  });
  bar.setAttribute("aria-label", labels.join(", "));
  return el("div", { class: "panel" }, el("h2", {}, "Time"), bar);
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

function attemptPane(attempt, heading) {
  const text = colouredText(attempt.segments, attempt.left_out);
  const total = attempt.times.length;
  const label = el("span", { class: "dim" });
  const show = (value) => {
    text.showUntil(value);
    label.textContent = `${value} of ${total} chunks, ${seconds(attempt.times[Math.max(value - 1, 0)])}`;
  };
  const range = el("input", { type: "range", min: 0, max: total, value: total, "aria-label": "Chunks over time", input: () => show(Number(range.value)) });
  const borders = el("input", { type: "checkbox", checked: true, change: () => text.classList.toggle("borders", borders.checked) });
  if (total) show(total);
  return el("div", { class: "panel attempt" },
    el("h2", {}, heading),
    attempt.reason && el("p", {}, "Why: ", line(attempt.reason, 1000)),
    attempt.error && el("p", { class: "bad" }, line(attempt.error, 1000)),
    legend(),
    el("div", { class: "slider" }, range, label, el("label", {}, borders, "borders")),
    text,
    el("h3", {}, "Events"),
    attempt.events.length ? eventList(attempt.events, attempt.events_left_out) : el("p", { class: "dim" }, "The client got nothing of this attempt."));
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
  return el("div", { class: "panel" }, el("h2", {}, `The prompt${index ? ` of attempt ${index + 1}` : ""}`), texts,
    el("details", {}, el("summary", {}, "the whole request"), bodyView(attempt.prompt)));
}

function message({ role, content }) {
  const parts = Array.isArray(content) ? content.map((part) => part?.text ?? JSON.stringify(part)) : [typeof content === "string" ? content : JSON.stringify(content ?? null)];
  return el("div", {}, el("div", { class: "role" }, line(String(role), 40)), longText(parts.join("\n"), 0, withEscapes));
}

function responsePane({ response }) {
  return el("div", { class: "panel" }, el("h2", {}, "What the client got"),
    el("p", { class: "dim" }, `status ${response.status}`), bodyView(response.body));
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
  return { text: attempt ? modelText(attempt) : "", dialect: found.summary.dialect || "auto", tools: found.tools.length ? JSON.stringify(found.tools, null, 2) : "" };
}
