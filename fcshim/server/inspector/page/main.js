// Chooses the view by the address, follows the proxy, and reads the keyboard.

import { follow, get } from "./api.js";
import { detailView } from "./detail.js";
import { el, line } from "./dom.js";
import { RequestList } from "./list.js";
import { modelsView } from "./models.js";
import { Playground } from "./playground.js";

const view = document.getElementById("view");
const live = document.getElementById("live");
const list = new RequestList((id) => { location.hash = `#/requests/${id}`; });
const playground = new Playground();
let given = null;
let current = 0;
let polling = 0;

function openPlayground(content) {
  given = content;
  location.hash = "#/playground";
}

async function content(name, id) {
  if (name === "playground") {
    const taken = given;
    given = null;
    await playground.prepare(taken);
    return playground.element;
  }
  if (name === "models") return modelsView();
  if (!id) return el("div", { class: "split" }, list.element);
  list.select(id);
  return el("div", { class: "split two" }, list.element, await detailView(id, openPlayground));
}

async function show() {
  const [, name = "requests", id = ""] = location.hash.split("/");
  const number = ++current;
  for (const link of document.querySelectorAll("nav a")) {
    link.toggleAttribute("aria-current", link.hash === `#/${name}`);
  }
  let found;
  try {
    found = await content(name, id);
  } catch (error) {
    found = el("p", { class: "bad", role: "alert" }, line(error.message, 1000));
  }
  if (number !== current) return;
  clearTimeout(polling);
  replaceView(found);
  if (isRunning(found)) poll(id, number);
}

function isRunning(found) {
  return found.querySelector(".detail[data-running]") !== null;
}

// What the user has unfolded and scrolled stays, while a running request is shown again.
function replaceView(found) {
  const places = "details, .raw, .events";
  const before = [...view.querySelectorAll(`.detail[data-id] :is(${places})`)];
  const isSame = view.querySelector(".detail")?.dataset.id === found.querySelector(".detail")?.dataset.id;
  const kept = isSame ? before.map((each) => [each.open, each.scrollTop]) : [];
  view.replaceChildren(found);
  const after = [...found.querySelectorAll(`.detail[data-id] :is(${places})`)];
  if (after.length !== kept.length) return;
  after.forEach((each, index) => {
    if (each.tagName === "DETAILS") each.open = kept[index][0];
    each.scrollTop = kept[index][1];
  });
}

// A running request is asked for again while it is open; a long one, which takes time to make, more seldom.
function poll(id, number) {
  const again = async () => {
    if (number !== current) return;
    const asked = performance.now();
    try {
      const found = await content("requests", id);
      if (number !== current) return;
      replaceView(found);
      if (!isRunning(found)) return;
    } catch {
      // It is no longer captured, or the proxy has stopped: what is shown stays.
    }
    polling = setTimeout(again, Math.max(1000, 10 * (performance.now() - asked)));
  };
  polling = setTimeout(again, 1000);
}

async function load() {
  const { requests } = await get("requests");
  list.replace(requests);
}

function connected() {
  live.textContent = "live";
  live.classList.add("on");
  load();
}

function lost() {
  live.textContent = "not connected";
  live.classList.remove("on");
}

// A request that is open while it runs is shown again when it has ended.
function changed(summaries) {
  list.update(summaries);
  const [, name, id] = location.hash.split("/");
  if (name === "requests" && summaries.some((each) => each.id === id && each.duration !== null)) show();
}

function isEditing(target) {
  return target.closest("input:not([type=range]):not([type=checkbox]), textarea, select, dialog");
}

// Beside an open request, the next one opens.
function move(step) {
  list.move(step);
  const [, name, id] = location.hash.split("/");
  if (name === "requests" && id && list.selected) location.hash = `#/requests/${list.selected}`;
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  Enter: () => list.selected && (location.hash = `#/requests/${list.selected}`),
  "/": () => {
    if (!list.search.isConnected || list.element.offsetParent === null) location.hash = "#/requests";
    setTimeout(() => list.search.focus(), 50);
  },
  Escape: () => { location.hash = "#/requests"; },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (isEditing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Enter" && event.target.closest("button, a, summary")) return;
  const action = KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

window.addEventListener("hashchange", show);
show();
load().catch(lost).then(() => follow(changed, connected, lost));
