// What was found out about the upstream and its models.

import { get } from "./api.js";
import { el, line } from "./dom.js";

const WAYS = {
  native: "by the upstream's own tool calling",
  prompt: "by the prompt",
  auto: "not known before the server has loaded it",
};

export async function modelsView() {
  const found = await get("models");
  const problem = found.problem && el("p", { class: "bad" }, line(found.problem, 500));
  const several = found.models.some((each) => each.upstream);
  const heads = [...(several ? ["upstream", "health"] : []), "model", "tools", "dialect", "because of", "profile", "not constrained because", "left out, since refused"];
  const rows = found.models.map((each) => el("tr", {}, [...(several ? [each.upstream ?? "", each.health || "ok"] : []), each.model, `${WAYS[each.tools] ?? each.tools}${each.tools_reason ? ` (${each.tools_reason})` : ""}`, each.dialect, each.reason ?? "", each.profile, each.note ?? "", (each.left_out ?? []).join(", ")].map((text) => el("td", {}, line(text, 200)))));
  return el("section", { "aria-label": "Models" }, el("h2", {}, "Upstream"), el("p", {}, line(`${found.upstream} (${found.upstream_api})`, 300)), problem,
    el("div", { class: "panel scroll" }, el("table", {}, el("thead", {}, el("tr", {}, heads.map((text) => el("th", {}, text)))), el("tbody", {}, rows))));
}
