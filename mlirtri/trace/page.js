"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const find = (selector) => document.querySelector(selector);
const ROW = 18;
const state = {kernel: 0, text: 0, other: null, mode: "text", view: "ir", lit: new Set(), folded: true, hits: new Set()};
const plainLines = new Map();
const decoder = document.createElement("textarea");

function plain(number) {
  if (!plainLines.has(number)) {
    decoder.innerHTML = data.lines[number].replace(/<[^>]*>/g, "");
    plainLines.set(number, decoder.value.toLowerCase());
  }
  return plainLines.get(number);
}

const kernel = () => data.kernels[state.kernel];
const textOf = (number) => kernel().texts[number];
const label = (text) => (text.pass === null ? text.stage : `${text.stage} / ${text.pass}`);
const places = (text, line) => {
  const from = text.from[line];
  return from === 0 ? [] : Array.isArray(from) ? from : [from];
};

/* Rows of a pane: only those that are visible are elements. */
class Pane {
  constructor(section) {
    this.section = section;
    this.title = section.querySelector("h2");
    this.scroll = section.querySelector(".scroll");
    this.inner = section.querySelector(".rows");
    this.rows = [];
    this.scroll.addEventListener("scroll", () => {
      this.draw();
      const beside = this === panes.first ? panes.second : this === panes.second ? panes.first : null;
      if (beside && state.mode === "sides" && !beside.section.hidden && beside.scroll.scrollTop !== this.scroll.scrollTop) beside.scroll.scrollTop = this.scroll.scrollTop;
    });
    this.scroll.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row && !getSelection().toString()) mark(this.rows[+row.dataset.n].from || []);
    });
    new ResizeObserver(() => this.draw()).observe(this.scroll);
  }
  show(title, rows) {
    this.title.textContent = title;
    this.rows = rows;
    let widest = 0;
    for (const row of rows) if (row.line !== undefined) widest = Math.max(widest, plain(row.line).length);
    this.inner.style.height = `${rows.length * ROW}px`;
    this.inner.style.width = `calc(${Math.min(widest, 4000)}ch + 6rem)`;
    this.drawn = "";
    this.draw();
  }
  draw(force) {
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / ROW) - 20);
    const last = Math.min(this.rows.length, Math.ceil((this.scroll.scrollTop + this.scroll.clientHeight) / ROW) + 20);
    const key = `${first}:${last}`;
    if (key === this.drawn && !force) return;
    this.drawn = key;
    let html = "";
    for (let n = first; n < last; n++) {
      const row = this.rows[n], from = row.from || [];
      let kind = row.kind || "";
      if (from.length) kind += " linked";
      if (from.some((place) => state.lit.has(place))) kind += " lit";
      if (row.line !== undefined && state.hits.has(row.line)) kind += " hit";
      const content = row.line === undefined ? row.text || "" : data.lines[row.line];
      html += `<div class="row ${kind}" data-n="${n}" style="top:${n * ROW}px"><b>${row.number ?? ""}</b>${content}</div>`;
    }
    this.inner.innerHTML = html;
  }
  reveal(test) {
    const number = this.rows.findIndex(test);
    if (number < 0) return false;
    const top = number * ROW, {scrollTop, clientHeight} = this.scroll;
    if (top < scrollTop || top > scrollTop + clientHeight - ROW) this.scroll.scrollTop = Math.max(0, top - clientHeight / 3);
    this.draw(true);
    return true;
  }
}

const panes = {source: new Pane(find("#source")), first: new Pane(find("#first")), second: new Pane(find("#second"))};

function wholeText(text) {
  return text.lines.map((line, n) => ({line, number: n + 1, from: places(text, n)}));
}

/* Myers' algorithm on the numbers of lines without names, after what both ends share is cut off; then names must agree. */
function difference(first, second) {
  const before = first.normal, after = second.normal;
  let start = 0, end = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  while (end < before.length - start && end < after.length - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  const a = before.slice(start, before.length - end), b = after.slice(start, after.length - end);
  const steps = [];
  for (let n = 0; n < start; n++) steps.push([" ", n, n]);
  for (const [kind, x, y] of middle(a, b)) steps.push([kind, x + start, y + start]);
  for (let n = 0; n < end; n++) steps.push([" ", before.length - end + n, after.length - end + n]);
  return first.kind === "mlir" || first.kind === "llvm" ? agreeing(steps, first, second) : steps;
}

const VALUE = /%[\w$.\-]+/g, OPENS = /^\s*\^bb|\b(?:func\.func|llvm\.func|define)\b/, DEFINED = /^\s*((?:%[\w$.\-]+(?::\d+)?(?:, )?)+) = /;
function agreeing(steps, first, second) {
  const forth = new Map(), back = new Map(), found = [];
  const agree = (old, now) => {
    if (!forth.has(old)) forth.set(old, now);
    if (!back.has(now)) back.set(now, old);
    return forth.get(old) === now && back.get(now) === old;
  };
  for (const step of steps) {
    if (step[0] !== " ") { found.push(step); continue; }
    const line = plain(first.lines[step[1]]), old = line.match(VALUE) || [], now = plain(second.lines[step[2]]).match(VALUE) || [];
    const defines = OPENS.test(line) ? old.length : ((line.match(DEFINED) || ["", ""])[1].match(VALUE) || []).length;
    let same = true;
    old.forEach((name, n) => {
      if (n < defines) { forth.set(name, now[n]); back.set(now[n], name); } else if (!agree(name, now[n])) same = false;
    });
    if (same) found.push(step);
    else found.push(["-", step[1], step[2]], ["+", step[1] + 1, step[2]]);
  }
  return found;
}

function middle(a, b) {
  const limit = 3000, trace = [];
  let reach = new Map([[1, 0]]), found = -1;
  for (let d = 0; d <= Math.min(a.length + b.length, limit) && found < 0; d++) {
    trace.push(new Map(reach));
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1)) ? reach.get(k + 1) : reach.get(k - 1) + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) { x++; y++; }
      reach.set(k, x);
      if (x >= a.length && y >= b.length) { found = d; break; }
    }
  }
  if (found < 0) return [...a.map((_, x) => ["-", x, 0]), ...b.map((_, y) => ["+", a.length, y])];
  const steps = [];
  let x = a.length, y = b.length;
  for (let d = found; d > 0; d--) {
    const v = trace[d], k = x - y;
    const down = k === -d || (k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1));
    const from = down ? k + 1 : k - 1, fromX = v.get(from), fromY = fromX - from;
    while (x > fromX && y > fromY) { x--; y--; steps.push([" ", x, y]); }
    if (down) { y--; steps.push(["+", x, y]); } else { x--; steps.push(["-", x, y]); }
  }
  while (x > 0 && y > 0) { x--; y--; steps.push([" ", x, y]); }
  return steps.reverse();
}

const CONTEXT = 4;
function kept(steps) {
  const near = new Uint8Array(steps.length);
  steps.forEach(([kind], n) => {
    if (kind !== " ") for (let m = Math.max(0, n - CONTEXT); m <= Math.min(steps.length - 1, n + CONTEXT); m++) near[m] = 1;
  });
  return near;
}

const side = (text, n) => ({line: text.lines[n], number: n + 1, from: places(text, n)});
function unified(before, after) {
  const steps = difference(before, after), near = kept(steps), rows = [];
  steps.forEach(([kind, x, y], n) => {
    if (!near[n]) { if (n === 0 || near[n - 1]) rows.push({kind: "gap", text: "…"}); return; }
    if (kind === "-") rows.push({...side(before, x), kind: "del"});
    else rows.push({...side(after, y), kind: kind === "+" ? "add" : ""});
  });
  return rows.length ? rows : [{kind: "gap", text: "no difference but names of values"}];
}

function sides(before, after) {
  const steps = difference(before, after), near = kept(steps), left = [], right = [];
  const even = () => { while (left.length < right.length) left.push({}); while (right.length < left.length) right.push({}); };
  steps.forEach(([kind, x, y], n) => {
    if (!near[n]) { if (n === 0 || near[n - 1]) { even(); left.push({kind: "gap", text: "…"}); right.push({kind: "gap", text: "…"}); } return; }
    if (kind === "-") left.push({...side(before, x), kind: "del"});
    else if (kind === "+") right.push({...side(after, y), kind: "add"});
    else { even(); left.push(side(before, x)); right.push(side(after, y)); }
  });
  even();
  return [left, right];
}

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

function showText() {
  const text = textOf(state.text), before = previous(state.text), other = counterpart();
  const name = `${kernel().pipeline}: ${label(text)}`;
  panes.second.section.hidden = !(other || (state.mode === "sides" && before));
  if (state.mode !== "text" && before) {
    if (state.mode === "unified") panes.first.show(`${name} — since ${label(before)}`, unified(before, text));
    else {
      const [left, right] = sides(before, text);
      panes.first.show(`${kernel().pipeline}: ${label(before)}`, left);
      panes.second.show(name, right);
    }
  } else panes.first.show(name, wholeText(text));
  if (other && !(state.mode === "sides" && before)) panes.second.show(`${data.kernels[state.other].pipeline}: ${label(other)}`, wholeText(other));
  if (state.lit.size) for (const pane of [panes.first, panes.second]) pane.reveal((row) => (row.from || []).some((place) => state.lit.has(place)));
}

function mark(from) {
  const same = from.length === state.lit.size && from.every((place) => state.lit.has(place));
  state.lit = new Set(same ? [] : from);
  for (const pane of Object.values(panes)) {
    pane.draw(true);
    if (state.lit.size) pane.reveal((row) => (row.from || []).some((place) => state.lit.has(place)));
  }
  link();
}

function showList() {
  const list = find("#list"), texts = kernel().texts;
  let html = "", hidden = 0, shownStage = null;
  const groups = new Map();
  texts.forEach((text, n) => { if (!groups.has(text.stage)) groups.set(text.stage, []); groups.get(text.stage).push(n); });
  for (const numbers of groups.values()) {
    const stages = numbers.filter((n) => texts[n].pass === null), passes = numbers.filter((n) => texts[n].pass !== null);
    for (const n of stages) html += entry(n, "stage");
    if (!stages.length) html += `<div class="folded">${texts[numbers[0]].stage}: not finished</div>`;
    hidden = 0;
    for (const n of passes) {
      if (!texts[n].changed && state.folded && n !== state.text) hidden++;
      else html += entry(n, texts[n].changed ? "pass" : "pass same");
    }
    if (hidden) html += `<div class="folded" data-unfold>${hidden} unchanged</div>`;
  }
  if (kernel().failure) html += `<div class="folded failure">${escape(kernel().failure.split("\n")[0])}</div>`;
  list.innerHTML = html;
  list.querySelector(".on")?.scrollIntoView({block: "nearest"});
}
const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
function entry(n, kind) {
  const text = textOf(n), name = text.pass ?? text.stage;
  const hit = state.hits.size && text.lines.some((line) => state.hits.has(line)) ? " hit" : "";
  const ours = text.upstream === false ? " ours" : "";
  const time = text.ms === null ? "" : `${text.ms.toFixed(text.ms < 10 ? 1 : 0)} ms`;
  const title = text.upstream === null ? "" : text.upstream ? "upstream's pass" : "our pass";
  return `<div class="entry ${kind}${hit}${ours}${n === state.text ? " on" : ""}" data-n="${n}" title="${title}">` +
    `<span>${escape(name)}</span><span class="ms">${time}</span><span class="size">${size(text.size)}</span></div>`;
}
const size = (bytes) => (bytes < 1000 ? `${bytes}` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)}k` : `${(bytes / 1e6).toFixed(1)}M`);

function visible() {
  return kernel().texts.map((_, n) => n).filter((n) => textOf(n).pass === null || textOf(n).changed || !state.folded)
    .sort((a, b) => order(a) - order(b));
}
/* In the list a stage stands above its passes. */
function order(n) {
  const text = textOf(n), stages = [...new Set(kernel().texts.map((each) => each.stage))];
  return stages.indexOf(text.stage) * 1e6 + (text.pass === null ? 0 : n + 1);
}

function choose(n) { state.text = n; showList(); showText(); link(); }
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

function search(query) {
  const wanted = query.toLowerCase();
  state.hits = new Set();
  if (wanted.length > 1) for (let n = 0; n < data.lines.length; n++) if (plain(n).includes(wanted)) state.hits.add(n);
  const texts = kernel().texts.filter((text) => text.lines.some((line) => state.hits.has(line)));
  const here = panes.first.rows.filter((row) => state.hits.has(row.line)).length;
  find("#hits").textContent = wanted.length > 1 ? `${here} here, ${texts.length} texts` : "";
  for (const pane of Object.values(panes)) pane.draw(true);
  showList();
}
let current = -1;
function nextHit(step) {
  const numbers = panes.first.rows.map((row, n) => (state.hits.has(row.line) ? n : -1)).filter((n) => n >= 0);
  const next = step > 0 ? numbers.find((n) => n > current) : numbers.findLast((n) => n < current);
  if (next !== undefined) {
    current = next;
    panes.first.scroll.scrollTop = Math.max(0, next * ROW - panes.first.scroll.clientHeight / 3);
    panes.first.draw(true);
    return;
  }
  current = -1;
  const shown = visible(), at = shown.indexOf(state.text);
  for (let n = 1; n <= shown.length; n++) {
    const candidate = shown[(at + step * n + shown.length * n) % shown.length];
    if (textOf(candidate).lines.some((line) => state.hits.has(line))) { choose(candidate); if (candidate !== shown[at]) nextHit(step); return; }
  }
}

/* A deep link names the pipeline, the stage, the pass, what is shown and the marked lines. */
function link() {
  const text = textOf(state.text), parts = [kernel().pipeline, text.stage];
  if (text.pass !== null) parts.push(text.pass);
  const options = new URLSearchParams();
  if (data.kernels.filter((each) => each.pipeline === kernel().pipeline).length > 1) options.set("k", state.kernel);
  if (state.mode !== "text") options.set("show", state.mode);
  if (state.view !== "ir") options.set("view", state.view);
  if (state.other !== null) options.set("beside", state.other);
  if (state.lit.size) options.set("lines", [...state.lit].join("."));
  const hash = `#${parts.map(encodeURIComponent).join("/")}${options.size ? `?${options}` : ""}`;
  if (hash !== location.hash) history.replaceState(null, "", hash);
}
function follow() {
  const [path, query] = location.hash.slice(1).split("?"), [pipeline, stage, pass] = path.split("/").map(decodeURIComponent);
  const options = new URLSearchParams(query || "");
  const named = data.kernels.findIndex((each) => each.pipeline === pipeline);
  state.kernel = Math.max(0, options.has("k") ? +options.get("k") : named);
  state.other = options.has("beside") ? +options.get("beside") : null;
  state.lit = new Set((options.get("lines") || "").split(".").filter(Boolean).map(Number));
  const wanted = stage || kernel().texts.find((each) => each.kind === "mlir")?.stage;
  const number = kernel().texts.findIndex((each) => each.stage === wanted && each.pass === (pass ?? null));
  const mode = options.get("show") || "text", view = options.get("view") || "ir";
  state.mode = mode;
  find("#split").classList.toggle("on", state.other !== null);
  chooseKernel(state.kernel, false);
  if (number >= 0) choose(number);
  setMode(mode);
  setView(view);
  if (state.lit.size) panes.source.reveal((row) => row.from.some((place) => state.lit.has(place)));
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
    if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const action = KEYS[event.key];
  if (action) { event.preventDefault(); action(); }
});
find("#search").addEventListener("input", (event) => { current = -1; search(event.target.value); });
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

data.kernels.forEach((each, n) => {
  const button = document.createElement("button");
  const again = data.kernels.some((other, m) => m !== n && other.pipeline === each.pipeline);
  button.textContent = again ? `${each.name}: ${each.pipeline}` : each.pipeline;
  button.title = `${each.signature} on ${each.target}`;
  button.addEventListener("click", () => chooseKernel(n, true));
  find("#kernels").append(button);
});
if (data.source) panes.source.show(data.source.file, data.source.lines.map((line, n) => ({line, number: data.source.first + n, from: [data.source.first + n]})));
else find("#source").hidden = true;
find("#split").hidden = data.kernels.length < 2;
follow();
