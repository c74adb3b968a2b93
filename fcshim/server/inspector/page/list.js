// The list of requests: live, filtered, searched, grouped by conversation. Only `shown` rows are in the page.

import { get } from "./api.js";
import { el, line, seconds, tags } from "./dom.js";

const STEP = 200;
const OUTCOMES = ["text", "calls", "invalid", "repaired", "rescued", "coerced", "retried", "rejected", "truncated", "withheld", "error", "running"];
const MAX = 5000;

// Columns that differ from row to row; one that is the same in all is said once above the table.
const FACTS = [["API", "api"], ["model", "model"], ["upstream", "upstream"], ["tool calling", "tool_calling"], ["dialect", "dialect"]];

export class RequestList {
  constructor(open) {
    this.open = open;
    this.byId = new Map();
    this.received = new Map();
    this.selected = "";
    this.shown = STEP;
    this.pending = false;
    this.unfolded = new Set();
    this.matched = null;
    this.search = el("input", { type: "search", maxlength: 200, placeholder: "Search requests and replies", "aria-label": "Search", input: () => this.searchSoon() });
    this.outcome = el("select", { "aria-label": "Outcome", change: () => this.refresh() }, el("option", { value: "" }, "every outcome"), OUTCOMES.map((word) => el("option", {}, word)));
    this.api = el("select", { "aria-label": "API", change: () => this.refresh() }, el("option", { value: "" }, "every API"));
    this.grouped = el("input", { type: "checkbox", checked: true, change: () => this.refresh() });
    this.count = el("span", { class: "dim", role: "status" });
    this.common = el("p", { class: "dim common" });
    this.head = el("tr", {});
    this.body = el("tbody", { click: (event) => this.clicked(event) });
    this.more = el("button", { type: "button", hidden: true, click: () => this.grow() }, "show more");
    this.element = el("section", { class: "listing", "aria-label": "Requests" },
      el("div", { class: "bar" }, this.search, this.outcome, this.api, el("label", {}, this.grouped, "conversations"), this.count),
      el("div", { class: "panel" }, this.common, el("table", { class: "requests" }, el("thead", {}, this.head), this.body), this.more));
    setInterval(() => this.tick(), 1000);
  }

  update(summaries) {
    for (const summary of summaries) this.take(summary);
    if (this.byId.size > MAX) for (const id of this.ids().slice(MAX)) this.byId.delete(id);
    if (this.search.value.trim()) this.searchSoon();
    this.refreshSoon();
  }

  replace(summaries) {
    this.byId.clear();
    this.received.clear();
    for (const summary of summaries) this.take(summary);
    this.refreshSoon();
  }

  // The clock of the machine that runs the proxy may be another: elapsed time counts from the message on.
  take(summary) {
    this.byId.set(summary.id, summary);
    if (summary.duration === null) this.received.set(summary.id, performance.now());
    else this.received.delete(summary.id);
  }

  elapsed(summary) {
    return summary.elapsed + (performance.now() - (this.received.get(summary.id) ?? performance.now())) / 1000;
  }

  tick() {
    for (const cell of this.body.querySelectorAll("td[data-running]")) {
      const summary = this.byId.get(cell.dataset.running);
      if (summary?.duration === null) cell.textContent = elapsedText(this.elapsed(summary));
    }
  }

  ids() {
    return [...this.byId.keys()].sort((a, b) => Number(b) - Number(a));
  }

  // A burst of changes draws the list once.
  refreshSoon() {
    if (this.pending) return;
    this.pending = true;
    setTimeout(() => {
      this.pending = false;
      this.refresh();
    }, 150);
  }

  // The rows are searched here at once, and the texts, which only the proxy has, after a pause.
  searchSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.searchTexts(), 250);
    this.refresh();
  }

  async searchTexts() {
    const text = this.search.value.trim();
    if (!text) {
      this.matched = null;
      this.refresh();
      return;
    }
    const found = await get(`requests?text=${encodeURIComponent(text)}`).catch(() => null);
    if (text !== this.search.value.trim() || !found) return;
    this.matched = { text, ids: new Set(found.requests.map((each) => each.id)) };
    this.refresh();
  }

  matching() {
    const text = this.search.value.trim();
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const inTexts = this.matched?.text === text ? this.matched.ids : new Set();
    return this.ids().map((id) => this.byId.get(id)).filter((each) => {
      if (this.outcome.value && !each.outcome.includes(this.outcome.value)) return false;
      if (this.api.value && each.api !== this.api.value) return false;
      if (inTexts.has(each.id)) return true;
      const row = [each.words, each.model, each.api, each.path, each.upstream, each.dialect, each.tool_calling, each.error, each.status, ...each.calls, ...each.outcome].join(" ").toLowerCase();
      return words.every((word) => row.includes(word));
    });
  }

  // The conversation with the newest request first; its other requests stand behind a button.
  rows(found) {
    if (!this.grouped.checked) return found.map((each) => ({ each, others: 0 }));
    const groups = new Map();
    for (const each of found) {
      const key = each.conversation || `alone ${each.id}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(each);
    }
    return [...groups].flatMap(([key, [newest, ...others]]) => {
      const first = { each: newest, others: others.length, key };
      return this.unfolded.has(key) ? [first, ...others.map((each) => ({ each, others: 0, inner: true }))] : [first];
    });
  }

  refresh() {
    const found = this.matching();
    const rows = this.rows(found);
    this.found = rows.map(({ each }) => each.id);
    const known = new Set([...this.api.options].map((option) => option.value));
    for (const each of this.byId.values()) {
      if (known.has(each.api)) continue;
      known.add(each.api);
      this.api.append(el("option", { value: each.api }, each.api));
    }
    this.api.hidden = known.size <= 2;
    this.count.textContent = `${found.length.toLocaleString()} of ${this.byId.size.toLocaleString()}`;
    const facts = this.differingFacts(found);
    const shown = COLUMNS.filter(([, , isEmpty]) => !isEmpty || !found.every(isEmpty));
    this.head.replaceChildren(...shown.map(([name, kind]) => el("th", { class: kind }, name)));
    this.body.replaceChildren(...rows.slice(0, this.shown).map((row) => this.row(row, facts, shown.map(([name]) => name))));
    if (!found.length) this.body.append(el("tr", {}, el("td", { colspan: shown.length, class: "dim" }, this.byId.size ? "No request matches." : "No request yet: send one to this proxy.")));
    this.more.hidden = rows.length <= this.shown;
  }

  differingFacts(found) {
    const differing = FACTS.filter(([, field]) => new Set(found.map((each) => each[field])).size > 1);
    const common = found.length > 1 ? FACTS.filter((fact) => !differing.includes(fact) && found[0][fact[1]]) : [];
    this.common.textContent = common.length ? line(`all: ${common.map(([name, field]) => `${name} ${found[0][field]}`).join(" · ")}`, 400) : "";
    return found.length > 1 ? differing : FACTS;
  }

  row({ each, others, inner, key }, differing, columns) {
    const tokens = each.output_tokens === null ? "" : `${each.input_tokens.toLocaleString()} → ${each.output_tokens.toLocaleString()}`;
    const time = new Date(each.time * 1000).toLocaleTimeString();
    const facts = differing.map(([, field]) => each[field]).filter(Boolean).join(" · ");
    const after = each.results.length ? `after the result of ${each.results.join(", ")}` : "";
    const open = this.unfolded.has(key);
    const fold = others > 0 && el("button", { type: "button", class: "fold", "aria-expanded": String(open), "data-key": key }, open ? "−" : `+${others}`, el("span", { class: "hidden" }, ` earlier requests of this conversation`));
    const failed = each.status >= 400 && el("span", { class: "tag error" }, String(each.status));
    const request = [
      el("div", { class: "words" }, fold, line(each.words || each.path, 200)),
      (after || facts) && el("div", { class: "dim" }, line([after, facts].filter(Boolean).join(" · "), 300)),
      each.reading && el("div", { class: "dim" }, line(each.reading, 100)),
      each.error && el("div", { class: "bad" }, line(each.error, 300)),
    ];
    const took = each.duration === null ? elapsedText(this.elapsed(each)) : seconds(each.duration);
    const running = each.duration === null ? { "data-running": each.id } : {};
    const cells = {
      time: el("td", { class: "wide" }, time),
      request: el("td", { class: "request" }, request),
      outcome: el("td", { class: "tags" }, tags(each.outcome), failed),
      "tools called": el("td", { class: "wide called" }, line(each.calls.join(", "), 100)),
      tokens: el("td", { class: "wide n" }, tokens),
      duration: el("td", { class: "n", ...running }, took),
    };
    return el("tr", { "data-id": each.id, class: inner ? "inner" : "", "aria-selected": String(each.id === this.selected) }, columns.map((name) => cells[name]));
  }

  clicked(event) {
    const fold = event.target.closest("button.fold");
    const row = event.target.closest("tr[data-id]");
    if (fold) {
      const key = Number(fold.dataset.key);
      if (!this.unfolded.delete(key)) this.unfolded.add(key);
      this.refresh();
    } else if (row) this.open(row.dataset.id);
  }

  grow() {
    this.shown += STEP;
    this.refresh();
  }

  move(step) {
    const found = this.found ?? [];
    const at = found.indexOf(this.selected);
    const next = Math.min(Math.max(at < 0 ? 0 : at + step, 0), found.length - 1);
    if (!(next in found)) return;
    this.select(found[next]);
    if (next >= this.shown) this.grow();
    this.body.querySelector("tr[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  select(id) {
    this.selected = id;
    const { conversation } = this.byId.get(id) ?? {};
    if (conversation && this.found && !this.found.includes(id) && !this.unfolded.has(conversation)) {
      this.unfolded.add(conversation);
      this.refresh();
    }
    for (const row of this.body.children) row.setAttribute("aria-selected", String(row.dataset.id === id));
  }
}

// Each with its class, and when it says nothing.
const COLUMNS = [
  ["time", "wide"],
  ["request", ""],
  ["outcome", ""],
  ["tools called", "wide", (each) => !each.calls.length],
  ["tokens", "wide n", (each) => each.output_tokens === null],
  ["duration", "n"],
];

function elapsedText(value) {
  return `${Math.floor(value)} s …`;
}
