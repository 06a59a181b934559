"use strict";
/* Contents of the page. Lines and texts lie in compressed chunks, which are opened when something of them is shown. */
const data = JSON.parse(document.getElementById("data").textContent);
const lineTexts = new Array(data.lines);
const normalOf = new Int32Array(data.lines);
const coloursOf = new Int32Array(data.lines);
const chunkCount = Math.ceil(data.lines / data.perChunk);
const opened = new Map();
const pending = new Set();
let colours = {classes: [""], runs: [[]]};

/* What is still to be shown: `settled` waits for all of it. */
function track(promise) {
  pending.add(promise);
  const done = () => pending.delete(promise);
  promise.then(done, (error) => { done(); console.error(error); });
  return promise;
}
async function settled() {
  while (pending.size) await Promise.allSettled([...pending]);
}

async function unpacked(id) {
  const text = atob(document.getElementById(id).textContent), bytes = new Uint8Array(text.length);
  for (let n = 0; n < text.length; n++) bytes[n] = text.charCodeAt(n);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}
function once(id, read) {
  if (!opened.has(id)) opened.set(id, unpacked(id).then(read));
  return opened.get(id);
}

const isChunkOpen = new Uint8Array(chunkCount);
const chunkOf = (line) => Math.floor(line / data.perChunk);
const openColours = () => once("colours", (read) => { colours = read; });
function openChunk(number) {
  return once(`lines-${number}`, (chunk) => {
    const first = number * data.perChunk;
    chunk.text.split("\n").forEach((line, n) => { lineTexts[first + n] = line; });
    normalOf.set(chunk.normal, first);
    coloursOf.set(chunk.colours, first);
    isChunkOpen[number] = 1;
  });
}
/* Equal texts have one body. */
async function openBody(text) {
  Object.assign(text, await once(`text-${text.body}`, (body) => {
    let line = 0;
    return {lines: Int32Array.from(body.lines, (by) => (line += by)), from: Int32Array.from(body.from)};
  }));
}
async function openChunksOf(numbers) {
  const wanted = new Set();
  for (const number of numbers) {
    const chunk = chunkOf(number);
    if (!isChunkOpen[chunk]) wanted.add(chunk);
  }
  if (wanted.size) await Promise.all([...wanted].map(openChunk));
}
/* Everything of a text, for differences. */
async function openWhole(text) {
  if (!text.lines) await openBody(text);
  await openChunksOf(text.lines);
}

/* Digits count as one character in the runs of colours; colours.py has the same pattern. */
const NUMBER = /^\s*[0-9a-f]+(?=:)|0x[0-9a-f]+|[0-9]+/g;
const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
function html(line) {
  const text = lineTexts[line], runs = colours.runs[coloursOf[line]] || [];
  if (!runs.length) return escape(text);
  const numbers = [...text.matchAll(NUMBER)];
  let found = "", at = 0, next = 0;
  for (let n = 0; n < runs.length; n += 2) {
    const start = at;
    for (let left = runs[n]; left > 0; left--) {
      at += next < numbers.length && numbers[next].index === at ? numbers[next++][0].length : 1;
    }
    const part = escape(text.slice(start, at));
    found += runs[n + 1] ? `<i class=${colours.classes[runs[n + 1]]}>${part}</i>` : part;
  }
  return found + escape(text.slice(at));
}

/* The rest is opened while nothing else is to do, so that searches and differences find it ready. */
const whenIdle = window.requestIdleCallback ? (action) => requestIdleCallback(action, {timeout: 1000}) : (action) => setTimeout(action, 30);
const BATCH = 1024;
function prepareRest() {
  const rest = [...Array(chunkCount).keys()].map((n) => () => openChunk(n));
  for (const each of data.kernels) for (const text of each.texts) rest.push(() => openBody(text));
  for (let start = 0; start < data.lines; start += BATCH) {
    rest.push(() => { for (let n = start; n < Math.min(start + BATCH, data.lines); n++) if (!namesOf[n]) readNames(n); });
  }
  for (let n = 0; n < chunkCount; n++) rest.push(() => loweredChunk(n));
  const next = async () => {
    const prepare = rest.shift();
    if (!prepare) return;
    await prepare();
    whenIdle(next);
  };
  whenIdle(next);
}
