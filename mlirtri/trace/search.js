/* Search in all lines of the page, chunk by chunk, in slices between which the page answers. */
const SLICE = 25; // milliseconds
let hits = new Uint8Array(data.lines);
let wanted = "";
let searches = 0;
let current = -1;
const lowered = new Map();

function loweredChunk(number) {
  if (!lowered.has(number)) {
    const lines = lineTexts.slice(number * data.perChunk, (number + 1) * data.perChunk), starts = new Int32Array(lines.length);
    let at = 0;
    lines.forEach((line, n) => { starts[n] = at; at += line.length + 1; });
    lowered.set(number, {text: lines.join("\n").toLowerCase(), starts});
  }
  return lowered.get(number);
}

function searchChunk(number) {
  const {text, starts} = loweredChunk(number), first = number * data.perChunk;
  let line = 0, at = text.indexOf(wanted);
  while (at >= 0) {
    while (line + 1 < starts.length && starts[line + 1] <= at) line++;
    hits[first + line] = 1;
    if (line + 1 >= starts.length) break;
    at = text.indexOf(wanted, starts[line + 1]);
  }
}

const hasHit = (text) => wanted !== "" && text.lines !== undefined && text.lines.some((line) => hits[line]);
function countHits(texts) {
  if (!wanted) { find("#hits").textContent = ""; return; }
  const {rows} = panes.first;
  let here = 0;
  for (let n = 0; n < rows.length; n++) if (hits[rows.at(n).line]) here++;
  find("#hits").textContent = `${here} here, ${texts ?? kernel().texts.filter(hasHit).length} texts`;
}

/* The lines that are shown come first; the other texts follow. */
async function search(query) {
  const mine = ++searches;
  wanted = query.length > 1 ? query.toLowerCase() : "";
  hits = new Uint8Array(data.lines);
  if (wanted) {
    const here = new Set(Array.from(textOf(state.text).lines || [], chunkOf)), all = Array(chunkCount).keys();
    if (!await searchChunks(here, mine)) return;
    showHits("…");
    if (!await searchChunks([...all].filter((n) => !here.has(n)), mine)) return;
    for (const text of kernel().texts) if (!text.lines) await openBody(text);
    if (mine !== searches) return;
  }
  showHits();
  showList();
}
async function searchChunks(numbers, mine) {
  let since = performance.now();
  for (const number of numbers) {
    if (!isChunkOpen[number]) await openChunk(number);
    if (performance.now() - since > SLICE) {
      await new Promise((go) => setTimeout(go));
      since = performance.now();
    }
    if (mine !== searches) return false;
    searchChunk(number);
  }
  return true;
}
function showHits(texts) {
  countHits(texts);
  for (const pane of Object.values(panes)) pane.draw(true);
}

async function nextHit(step) {
  if (!wanted) return;
  for (let at = current + step, {rows} = panes.first; at >= 0 && at < rows.length; at += step) {
    if (hits[rows.at(at).line]) { current = at; panes.first.goTo(at); return; }
  }
  const shown = visible(), position = shown.indexOf(state.text);
  for (let n = 1; n <= shown.length; n++) {
    const candidate = shown[(position + step * n + shown.length * n) % shown.length], text = textOf(candidate);
    if (!text.lines) await openBody(text);
    if (!hasHit(text)) continue;
    await choose(candidate);
    const {rows} = panes.first;
    for (let at = step > 0 ? 0 : rows.length - 1; at >= 0 && at < rows.length; at += step) {
      if (hits[rows.at(at).line]) { current = at; panes.first.goTo(at); return; }
    }
  }
}
