// The list of requests: live, filtered, searched. Only `shown` rows are in the page.

import { el, line, seconds, tags } from "./dom.js";

const STEP = 200;
const OUTCOMES = ["text", "calls", "repaired", "rescued", "coerced", "retried", "rejected", "truncated", "withheld", "error", "running"];
const MAX = 5000;

export class RequestList {
  constructor(open) {
    this.open = open;
    this.byId = new Map();
    this.selected = "";
    this.shown = STEP;
    this.pending = false;
    this.search = el("input", { type: "search", placeholder: "Search model, upstream, tool, error", "aria-label": "Search", input: () => this.refresh() });
    this.outcome = el("select", { "aria-label": "Outcome", change: () => this.refresh() }, el("option", { value: "" }, "every outcome"), OUTCOMES.map((word) => el("option", {}, word)));
    this.api = el("select", { "aria-label": "API", change: () => this.refresh() }, el("option", { value: "" }, "every API"));
    this.count = el("span", { class: "dim" });
    this.body = el("tbody", { click: (event) => this.clicked(event) });
    const heads = [["time"], ["API", "wide"], ["model"], ["upstream", "wide"], ["tool calling", "wide"], ["dialect", "wide"], ["outcome"], ["tools called", "wide"], ["tokens", "wide"], ["duration"]];
    this.more = el("button", { type: "button", hidden: true, click: () => this.grow() }, "show more");
    this.element = el("section", { class: "listing", "aria-label": "Requests" },
      el("div", { class: "bar" }, this.search, this.outcome, this.api, this.count),
      el("div", { class: "panel scroll" }, el("table", {}, el("thead", {}, el("tr", {}, heads.map(([text, kind]) => el("th", { class: kind }, text)))), this.body), this.more));
  }

  update(summaries) {
    for (const summary of summaries) this.byId.set(summary.id, summary);
    if (this.byId.size > MAX) for (const id of this.ids().slice(MAX)) this.byId.delete(id);
    this.refreshSoon();
  }

  replace(summaries) {
    this.byId = new Map(summaries.map((summary) => [summary.id, summary]));
    this.refreshSoon();
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

  matching() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    return this.ids().map((id) => this.byId.get(id)).filter((each) => {
      if (this.outcome.value && !each.outcome.includes(this.outcome.value)) return false;
      if (this.api.value && each.api !== this.api.value) return false;
      const text = [each.model, each.api, each.path, each.upstream, each.dialect, each.tool_calling, each.error, ...each.calls, ...each.outcome].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }

  refresh() {
    const found = this.matching();
    this.found = found.map((each) => each.id);
    const known = new Set([...this.api.options].map((option) => option.value));
    for (const each of this.byId.values()) {
      if (known.has(each.api)) continue;
      known.add(each.api);
      this.api.append(el("option", { value: each.api }, each.api));
    }
    this.count.textContent = `${found.length.toLocaleString()} of ${this.byId.size.toLocaleString()}`;
    this.body.replaceChildren(...found.slice(0, this.shown).map((each) => this.row(each)));
    if (!this.byId.size) this.body.append(el("tr", {}, el("td", { colspan: 10, class: "dim" }, "No request yet: send one to this proxy.")));
    this.more.hidden = found.length <= this.shown;
  }

  row(each) {
    const tokens = each.output_tokens === null ? "" : `${each.input_tokens} → ${each.output_tokens}`;
    const time = new Date(each.time * 1000).toLocaleTimeString();
    const cells = [[time], [each.api, "wide"], [line(each.model || each.path, 60)], [line(each.upstream, 40), "wide"], [each.tool_calling, "wide"], [line(each.dialect, 40), "wide"], [tags(each.outcome)], [line(each.calls.join(", "), 60), "wide"], [tokens, "wide n"], [each.duration === null ? each.reading || "…" : seconds(each.duration), "n"]];
    return el("tr", { "data-id": each.id, "aria-selected": String(each.id === this.selected) }, cells.map(([content, kind]) => el("td", { class: kind }, content)));
  }

  clicked(event) {
    const row = event.target.closest("tr[data-id]");
    if (row) this.open(row.dataset.id);
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
    for (const row of this.body.children) row.setAttribute("aria-selected", String(row.dataset.id === id));
  }
}
