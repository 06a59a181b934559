/* The list, the panes, keys and links. */
const find = (selector) => document.querySelector(selector);
const state = {kernel: 0, text: 0, other: null, mode: "text", view: "ir", folded: true};
const kernel = () => data.kernels[state.kernel];
const textOf = (number) => kernel().texts[number];
const label = (text) => (text.pass === null ? text.stage : `${text.stage} / ${text.pass}`);
const panes = {source: new Pane(find("#source")), first: new Pane(find("#first")), second: new Pane(find("#second"))};

/* In the list a stage stands above its passes. */
for (const each of data.kernels) {
  const stages = [...new Set(each.texts.map((text) => text.stage))];
  each.groups = stages.map((stage) => {
    const numbers = each.texts.map((_, n) => n).filter((n) => each.texts[n].stage === stage);
    return {stage, whole: numbers.filter((n) => each.texts[n].pass === null), passes: numbers.filter((n) => each.texts[n].pass !== null)};
  });
  each.order = each.groups.flatMap((group) => [...group.whole, ...group.passes]);
}
const isFolded = (text) => text.pass !== null && !text.changed && state.folded;
const visible = () => kernel().order.filter((n) => !isFolded(textOf(n)));

/* The text before: of the same kind of IR, the nearest that is above in the list. */
function previous(number) {
  const text = textOf(number);
  for (let n = number - 1; n >= 0; n--) if (textOf(n).kind === text.kind) return textOf(n);
  return null;
}

function counterpart() {
  if (state.other === null) return null;
  const other = data.kernels[state.other], text = textOf(state.text);
  const same = other.texts.find((each) => each.stage === text.stage && each.pass === text.pass)
    || other.texts.find((each) => each.stage === text.stage && each.pass === null)
    || other.texts.filter((each) => each.pass === null)[Math.min(stageNumber(), other.texts.filter((each) => each.pass === null).length - 1)];
  return same || null;
}
const stageNumber = () => kernel().texts.slice(0, state.text).filter((each) => each.pass === null).length;

let showings = 0;
function showText() { return track(showTextNow(++showings)); }
async function showTextNow(mine) {
  const text = textOf(state.text), before = previous(state.text), other = counterpart();
  const isDifference = state.mode !== "text" && before !== null, name = `${kernel().pipeline}: ${label(text)}`;
  await Promise.all(isDifference ? [openWhole(before), openWhole(text)] : [openBody(text)]);
  if (other) await openBody(other);
  if (mine !== showings) return;
  panes.second.section.hidden = !(other || (state.mode === "sides" && before));
  if (!isDifference) panes.first.show(name, wholeText(text));
  else showDifference(before, text, name);
  if (other && !(state.mode === "sides" && before)) panes.second.show(`${data.kernels[state.other].pipeline}: ${label(other)}`, wholeText(other));
  if (lit.lines.size) for (const pane of [panes.first, panes.second]) pane.reveal();
  current = -1;
  if (wanted) countHits();
}
function showDifference(before, text, name) {
  const widest = Math.max(before.widest, text.widest);
  if (state.mode === "unified") {
    panes.first.show(`${name} — since ${label(before)}`, rowList(unified(before, text), widest));
    return;
  }
  const [left, right] = sides(before, text);
  panes.first.show(`${kernel().pipeline}: ${label(before)}`, rowList(left, widest));
  panes.second.show(name, rowList(right, widest));
}

function mark(lines) {
  const same = lines.length === lit.lines.size && lines.every((line) => lit.lines.has(line));
  light(same ? [] : lines);
  for (const pane of Object.values(panes)) pane.reveal();
  link();
}

function showList() {
  const list = find("#list");
  let content = "";
  for (const {stage, whole, passes} of kernel().groups) {
    for (const n of whole) content += entry(n, "stage");
    if (!whole.length) content += `<div class="folded">${stage}: not finished</div>`;
    const shown = passes.filter((n) => !isFolded(textOf(n)) || n === state.text);
    for (const n of shown) content += entry(n, textOf(n).changed ? "pass" : "pass same");
    if (shown.length < passes.length) content += `<div class="folded" data-unfold>${passes.length - shown.length} unchanged</div>`;
  }
  if (kernel().failure) content += `<div class="folded failure">${escape(kernel().failure.split("\n")[0])}</div>`;
  list.innerHTML = content;
  list.querySelector(".on")?.scrollIntoView({block: "nearest"});
}
function entry(n, kind) {
  const text = textOf(n), name = text.pass ?? text.stage;
  const hit = hasHit(text) ? " hit" : "";
  const ours = text.upstream === false ? " ours" : "";
  const time = text.ms === null ? "" : `${text.ms.toFixed(text.ms < 10 ? 1 : 0)} ms`;
  const title = text.upstream === null ? "" : text.upstream ? "upstream's pass" : "our pass";
  return `<div class="entry ${kind}${hit}${ours}${n === state.text ? " on" : ""}" data-n="${n}" title="${title}">` +
    `<span>${escape(name)}</span><span class="ms">${time}</span><span class="size">${size(text.size)}</span></div>`;
}
const size = (bytes) => (bytes < 1000 ? `${bytes}` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)}k` : `${(bytes / 1e6).toFixed(1)}M`);

function choose(n) { state.text = n; showList(); link(); return showText(); }
function chooseKernel(n, keep) {
  const old = keep ? textOf(state.text) : null;
  state.kernel = n;
  if (state.other === n) state.other = data.kernels.length > 1 ? (n + 1) % data.kernels.length : null;
  const same = old ? kernel().texts.findIndex((each) => each.stage === old.stage && each.pass === old.pass) : -1;
  const stage = old ? kernel().texts.findIndex((each) => each.stage === old.stage && each.pass === null) : -1;
  state.text = same >= 0 ? same : stage >= 0 ? stage : Math.max(0, kernel().texts.findIndex((each) => each.pass === null));
  find("#kernels").querySelectorAll("button").forEach((button, number) => button.classList.toggle("on", number === n));
  choose(state.text);
}
function setMode(mode) {
  state.mode = mode;
  find("#modes").querySelectorAll("button").forEach((button) => button.classList.toggle("on", button.dataset.mode === mode));
  showText();
  link();
}
function setView(view) {
  state.view = view;
  document.querySelectorAll("main").forEach((main) => { main.hidden = main.dataset.view !== view; });
  find("#views").querySelectorAll("button").forEach((button) => button.classList.toggle("on", button.dataset.view === view));
  link();
}
function split() {
  state.other = state.other === null && data.kernels.length > 1 ? (state.kernel + 1) % data.kernels.length : null;
  find("#split").classList.toggle("on", state.other !== null);
  showText();
  link();
}

/* A deep link names the pipeline, the stage, the pass, what is shown and the marked lines. */
let linking = null;
function link() {
  // Browsers limit how often the address may change.
  linking ??= setTimeout(() => { linking = null; writeLink(); }, 60);
}
function writeLink() {
  const text = textOf(state.text), parts = [kernel().pipeline, text.stage];
  if (text.pass !== null) parts.push(text.pass);
  const options = new URLSearchParams();
  if (data.kernels.filter((each) => each.pipeline === kernel().pipeline).length > 1) options.set("k", state.kernel);
  if (state.mode !== "text") options.set("show", state.mode);
  if (state.view !== "ir") options.set("view", state.view);
  if (state.other !== null) options.set("beside", state.other);
  if (lit.lines.size) options.set("lines", [...lit.lines].join("."));
  const hash = `#${parts.map(encodeURIComponent).join("/")}${options.size ? `?${options}` : ""}`;
  if (hash !== location.hash) history.replaceState(null, "", hash);
}
function follow() {
  const [path, query] = location.hash.slice(1).split("?"), [pipeline, stage, pass] = path.split("/").map(decodeURIComponent);
  const options = new URLSearchParams(query || "");
  const named = data.kernels.findIndex((each) => each.pipeline === pipeline);
  state.kernel = Math.max(0, options.has("k") ? +options.get("k") : named);
  state.other = options.has("beside") ? +options.get("beside") : null;
  light((options.get("lines") || "").split(".").filter(Boolean).map(Number));
  const first = stage || kernel().texts.find((each) => each.kind === "mlir")?.stage;
  const number = kernel().texts.findIndex((each) => each.stage === first && each.pass === (pass ?? null));
  const mode = options.get("show") || "text", view = options.get("view") || "ir";
  state.mode = mode;
  find("#split").classList.toggle("on", state.other !== null);
  chooseKernel(state.kernel, false);
  if (number >= 0) choose(number);
  setMode(mode);
  setView(view);
  if (lit.lines.size) panes.source.reveal();
}

const MODES = ["text", "unified", "sides"];
function step(by) {
  const shown = visible(), at = shown.indexOf(state.text);
  choose(shown[Math.min(shown.length - 1, Math.max(0, at + by))]);
}
const KEYS = {
  j: () => step(1), ArrowDown: () => step(1), k: () => step(-1), ArrowUp: () => step(-1),
  l: () => chooseKernel((state.kernel + 1) % data.kernels.length, true), h: () => chooseKernel((state.kernel + data.kernels.length - 1) % data.kernels.length, true),
  d: () => setMode(MODES[(MODES.indexOf(state.mode) + 1) % 3]), s: split, t: theme,
  u: () => { state.folded = !state.folded; showList(); },
  "/": () => find("#search").focus(), "?": () => find("#keys").showModal(),
  1: () => setView("ir"), 2: () => setView("fusion"), 3: () => setView("costs"),
  Escape: () => mark([]),
};
KEYS.ArrowRight = KEYS.l;
KEYS.ArrowLeft = KEYS.h;
function theme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.id === "search") {
    if (event.key === "Enter") track(nextHit(event.shiftKey ? -1 : 1));
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const action = KEYS[event.key];
  if (action) { event.preventDefault(); action(); }
});
find("#search").addEventListener("input", (event) => { current = -1; track(search(event.target.value)); });
find("#list").addEventListener("click", (event) => {
  const chosen = event.target.closest(".entry");
  if (chosen) choose(+chosen.dataset.n);
  else if (event.target.closest("[data-unfold]")) KEYS.u();
});
find("#modes").addEventListener("click", (event) => event.target.dataset.mode && setMode(event.target.dataset.mode));
find("#views").addEventListener("click", (event) => event.target.dataset.view && setView(event.target.dataset.view));
find("#split").addEventListener("click", split);
find("#theme").addEventListener("click", theme);
find("#help").addEventListener("click", () => find("#keys").showModal());
addEventListener("hashchange", follow);

function showSource({file, first, lines, widest}) {
  const sets = new Map(data.origins.map((origins, n) => [origins.join(), n]));
  for (const origin of new Set(data.origins.flat())) if (!sets.has(`${origin}`)) sets.set(`${origin}`, data.origins.push([origin]) - 1);
  const rows = lines.map((line, n) => ({line, number: first + n, from: sets.get(`${first + n}`) ?? 0}));
  panes.source.show(file, rowList(rows, widest));
}
data.kernels.forEach((each, n) => {
  const button = document.createElement("button");
  const again = data.kernels.some((other, m) => m !== n && other.pipeline === each.pipeline);
  button.textContent = again ? `${each.name}: ${each.pipeline}` : each.pipeline;
  button.title = `${each.signature} on ${each.target}`;
  button.addEventListener("click", () => chooseKernel(n, true));
  find("#kernels").append(button);
});
if (data.source) showSource(data.source);
else find("#source").hidden = true;
find("#split").hidden = data.kernels.length < 2;
openColours().then(() => { for (const pane of Object.values(panes)) pane.draw(true); });
follow();
prepareRest();
