// Sends a request again, in another dialect or to another model, and opens it.

import { get, post } from "./api.js";
import { el, line } from "./dom.js";

export function resendForm(id, summary) {
  const dialect = el("select", { "aria-label": "Dialect of the new request" }, el("option", { value: "" }, "the same dialect"));
  const models = el("datalist", { id: "models" });
  const model = el("input", { list: "models", placeholder: summary.model || "model", "aria-label": "Model of the new request", maxlength: 500 });
  const problem = el("span", { class: "bad", role: "alert" });
  const send = async () => {
    problem.textContent = "";
    try {
      const sent = await post(`requests/${encodeURIComponent(id)}/resend`, { dialect: dialect.value, model: model.value.trim() });
      if (sent.id) location.hash = `#/requests/${sent.id}`;
    } catch (error) {
      problem.textContent = line(error.message, 300);
    }
  };
  const form = el("details", { class: "resend" }, el("summary", {}, "send again"),
    el("div", { class: "bar" }, dialect, model, models, el("button", { type: "button", click: send }, "send"), problem),
    el("p", { class: "dim" }, "The request goes through this proxy, with your key and not with the client's, which is never stored. A call that comes back is not run."));
  form.addEventListener("toggle", async () => {
    if (!form.open || dialect.options.length > 1) return;
    const found = await get("models");
    dialect.append(...found.dialects.map((name) => el("option", {}, name)));
    models.append(...found.models.map((each) => el("option", { value: each.model })));
  });
  return form;
}
