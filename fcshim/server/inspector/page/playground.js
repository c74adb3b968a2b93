// Edit a reply, and see the events change.

import { get, post } from "./api.js";
import { colouredText, copy, el, eventList, legend, line, vectorEvents } from "./dom.js";

const EXAMPLE = 'Let me look.\n<function_call>\n{"name": "get_weather", "arguments": {"city": "Paris",}}\n</function_call>';

export class Playground {
  constructor() {
    const changed = () => this.parseSoon();
    this.text = el("textarea", { rows: 14, "aria-label": "The model's text", spellcheck: "false", input: changed });
    this.tools = el("textarea", { rows: 6, "aria-label": "Tools (JSON)", spellcheck: "false", placeholder: 'Offered tools, as JSON: [{"name": "get_weather"}]. Empty: every name is a call.', input: changed });
    this.dialect = el("select", { "aria-label": "Dialect", change: changed });
    this.rescue = el("input", { type: "checkbox", change: changed });
    this.reasoning = el("select", { "aria-label": "Calls inside reasoning", change: changed }, ["ignore", "recover", "promote"].map((policy) => el("option", {}, policy)));
    this.openTag = el("input", { size: 9, maxlength: 60, placeholder: "<think>", "aria-label": "Reasoning tag that the prompt opens", input: changed });
    this.arguments = el("select", { "aria-label": "Arguments", change: changed }, ["stream", "validated"].map((policy) => el("option", {}, policy)));
    const reset = () => {
      this.use(this.served);
      this.parse();
    };
    this.chunk = el("input", { type: "number", min: 0, max: 1000000, value: 0, "aria-label": "Cut after so many characters", change: changed });
    this.stop = el("select", { "aria-label": "Stop reason", change: changed }, ["complete", "max_tokens", "stop_sequence", "content_filter"].map((reason) => el("option", {}, reason)));
    this.problem = el("p", { class: "bad", role: "alert" });
    this.result = el("div", {});
    this.text.value = EXAMPLE;
    this.last = null;
    this.element = el("section", { "aria-label": "Playground" },
      el("div", { class: "bar" }, el("label", {}, "dialect", this.dialect), el("label", {}, this.rescue, "rescue"), el("label", {}, "reasoning", this.reasoning), el("label", {}, "open tag", this.openTag), el("label", {}, "arguments", this.arguments), el("button", { type: "button", click: reset }, "settings of serve")),
      el("div", { class: "bar" }, el("label", {}, "in chunks of", this.chunk, "characters, 0 for one"), el("label", {}, "ends by", this.stop),
        el("button", { type: "button", click: () => this.last && copy(this.vector()) }, "copy as test vector")),
      el("div", { class: "play" },
        el("div", { class: "panel" }, el("h2", {}, "The model's text"), this.text, el("h3", {}, "Tools"), this.tools, this.problem),
        el("div", { class: "panel" }, el("h2", {}, "What the parser makes of it"), legend(), this.result)));
  }

  async prepare(given) {
    if (!this.dialect.options.length) {
      const { dialects, settings } = await get("models");
      this.dialect.append(...dialects.map((name) => el("option", {}, name)));
      this.served = settings;
      this.use(settings);
    }
    if (given) {
      this.text.value = given.text;
      this.tools.value = given.tools;
      this.use({ ...this.served, ...given.settings });
    }
    await this.parse();
  }

  use({ dialect, rescue, reasoning, open_reasoning_tag: tag, arguments: policy }) {
    this.dialect.value = dialect;
    if (!this.dialect.value) this.dialect.value = "auto";
    this.rescue.checked = rescue;
    this.reasoning.value = reasoning;
    this.openTag.value = tag;
    this.arguments.value = policy;
  }

  parseSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.parse(), 150);
  }

  asked() {
    const tools = this.tools.value.trim() ? JSON.parse(this.tools.value) : null;
    return { text: this.text.value, dialect: this.dialect.value, tools, rescue: this.rescue.checked, reasoning: this.reasoning.value, open_reasoning_tag: this.openTag.value.trim(), arguments: this.arguments.value, chunk: Number(this.chunk.value) || 0, stop_reason: this.stop.value };
  }

  async parse() {
    this.running?.abort();
    this.running = new AbortController();
    try {
      this.last = await post("parse", this.asked(), this.running.signal);
      this.problem.textContent = "";
      this.result.replaceChildren(colouredText(this.last.segments), el("h3", {}, "Events"), eventList(this.last.events, 0, String));
    } catch (error) {
      if (error.name !== "AbortError") this.problem.textContent = line(error.message, 1000);
    }
  }

  vector() {
    const asked = this.asked();
    const plain = { rescue: false, reasoning: "ignore", open_reasoning_tag: "", arguments: "stream" };
    const changed = Object.keys(plain).filter((name) => asked[name] !== plain[name]);
    const options = { dialect: asked.dialect, ...Object.fromEntries(changed.map((name) => [name, asked[name]])) };
    return JSON.stringify({ name: "from the playground", input: asked.text, ...(asked.tools ? { tools: asked.tools } : {}), options, ...(asked.stop_reason === "complete" ? {} : { stop_reason: asked.stop_reason }), events: vectorEvents(this.last.events) }, null, 2);
  }
}
