/* Differences of two texts: by the numbers of lines without names, then names must correspond. */
const STEPS = 200;
function difference(first, second) {
  const before = Int32Array.from(first.lines, (line) => normalOf[line]), after = Int32Array.from(second.lines, (line) => normalOf[line]);
  const steps = [];
  let x = 0, y = 0;
  const apart = (toX, toY) => {
    for (; x < toX; x++) steps.push(["-", x, y]);
    for (; y < toY; y++) steps.push(["+", x, y]);
  };
  align(before, after, 0, before.length, 0, after.length, (atX, atY) => {
    apart(atX, atY);
    steps.push([" ", x++, y++]);
  });
  apart(before.length, after.length);
  return first.kind === "mlir" || first.kind === "llvm" ? agreeing(steps, first, second) : steps;
}

/* Call `pair` with the positions of lines that belong together, in order. */
function align(a, b, startA, endA, startB, endB, pair) {
  while (startA < endA && startB < endB && a[startA] === b[startB]) pair(startA++, startB++);
  let same = 0;
  while (startA < endA - same && startB < endB - same && a[endA - 1 - same] === b[endB - 1 - same]) same++;
  between(a, b, startA, endA - same, startB, endB - same, pair);
  for (; same > 0; same--) pair(endA - same, endB - same);
}
function between(a, b, startA, endA, startB, endB, pair) {
  if (startA === endA || startB === endB) return;
  const shortest = shortestSteps(a, b, startA, endA, startB, endB);
  if (shortest) { for (const [x, y] of shortest) pair(x, y); return; }
  for (const length of [1, 3, 8]) {
    const anchors = uniqueInBoth(a, b, startA, endA, startB, endB, length);
    if (!anchors.length) continue;
    for (const [x, y] of anchors) {
      if (x < startA || y < startB) continue;
      align(a, b, startA, x, startB, y, pair);
      pair(x, y);
      startA = x + 1;
      startB = y + 1;
    }
    align(a, b, startA, endA, startB, endB, pair);
    return;
  }
}

/* Myers' greedy algorithm; null where more than STEPS lines differ. */
function shortestSteps(a, b, startA, endA, startB, endB) {
  const lengthA = endA - startA, lengthB = endB - startB, trace = [];
  if (Math.abs(lengthA - lengthB) > STEPS) return null;
  let reach = new Int32Array(2 * STEPS + 3), found = -1;
  const middle = STEPS + 1;
  const goesDown = (v, d, k) => k === -d || (k !== d && v[middle + k - 1] < v[middle + k + 1]);
  for (let d = 0; d <= Math.min(lengthA + lengthB, STEPS) && found < 0; d++) {
    trace.push(reach.slice(middle - d - 1, middle + d + 2));
    for (let k = -d; k <= d; k += 2) {
      let x = goesDown(reach, d, k) ? reach[middle + k + 1] : reach[middle + k - 1] + 1, y = x - k;
      while (x < lengthA && y < lengthB && a[startA + x] === b[startB + y]) { x++; y++; }
      reach[middle + k] = x;
      if (x >= lengthA && y >= lengthB) { found = d; break; }
    }
  }
  if (found < 0) return null;
  const pairs = [];
  let x = lengthA, y = lengthB;
  for (let d = found; d > 0; d--) {
    const v = trace[d], at = (k) => v[k + d + 1], k = x - y;
    const isDown = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const from = isDown ? k + 1 : k - 1, fromX = at(from), fromY = fromX - from;
    while (x > fromX && y > fromY) pairs.push([startA + --x, startB + --y]);
    x = fromX;
    y = fromY;
  }
  while (x > 0 && y > 0) pairs.push([startA + --x, startB + --y]);
  return pairs.reverse();
}

/* Where runs of `length` lines that are there once in both texts begin: the longest list in the order of both. */
function uniqueInBoth(a, b, startA, endA, startB, endB, length) {
  const once = (lines, start, end) => {
    const positions = new Map();
    for (let n = start; n + length <= end; n++) {
      const key = length === 1 ? lines[n] : lines.subarray(n, n + length).join();
      positions.set(key, positions.has(key) ? -1 : n);
    }
    return positions;
  };
  const inB = once(b, startB, endB), pairs = [];
  for (const [key, x] of once(a, startA, endA)) {
    const y = inB.get(key);
    if (x >= 0 && y !== undefined && y >= 0) pairs.push([x, y]);
  }
  pairs.sort((one, other) => one[0] - other[0]);
  return longestIncreasing(pairs);
}
function longestIncreasing(pairs) {
  const ends = [], before = new Int32Array(pairs.length);
  pairs.forEach(([, y], n) => {
    let low = 0, high = ends.length;
    while (low < high) {
      const half = (low + high) >> 1;
      if (pairs[ends[half]][1] < y) low = half + 1; else high = half;
    }
    before[n] = low ? ends[low - 1] : -1;
    ends[low] = n;
  });
  const found = [];
  for (let n = ends.length ? ends[ends.length - 1] : -1; n >= 0; n = before[n]) found.push(pairs[n]);
  return found.reverse();
}

/* The numbers of the values' names in a line, and how many of them it defines. */
const VALUE = /%[\w$.\-]+/g, OPENS = /^\s*\^bb|\b(?:func\.func|llvm\.func|define)\b/, DEFINES = /^\s*%/;
const nameNumbers = new Map();
const namesOf = new Array(data.lines);
const definedIn = new Int32Array(data.lines);
function readNames(line) {
  const text = lineTexts[line], names = text.match(VALUE) || [];
  namesOf[line] = names.map((name) => {
    if (!nameNumbers.has(name)) nameNumbers.set(name, nameNumbers.size);
    return nameNumbers.get(name);
  });
  if (!names.length) return;
  const end = DEFINES.test(text) ? text.indexOf(" = ") : -1;
  definedIn[line] = OPENS.test(text) ? names.length : end < 0 ? 0 : text.slice(0, end).match(VALUE).length;
}

/* Lines stay aligned if each value of the one always stands where the same value of the other stands. */
function agreeing(steps, first, second) {
  for (const text of [first, second]) for (const line of text.lines) if (!namesOf[line]) readNames(line);
  const forth = new Int32Array(nameNumbers.size).fill(-1), back = new Int32Array(nameNumbers.size).fill(-1), found = [];
  for (const step of steps) {
    if (step[0] !== " ") { found.push(step); continue; }
    const line = first.lines[step[1]], old = namesOf[line], now = namesOf[second.lines[step[2]]];
    let same = true;
    for (let n = 0; n < old.length; n++) {
      const isNew = n < definedIn[line];
      if (isNew || forth[old[n]] < 0) forth[old[n]] = now[n];
      if (isNew || back[now[n]] < 0) back[now[n]] = old[n];
      if (forth[old[n]] !== now[n] || back[now[n]] !== old[n]) same = false;
    }
    if (same) found.push(step);
    else found.push(["-", step[1], step[2]], ["+", step[1] + 1, step[2]]);
  }
  return found;
}

const CONTEXT = 4;
function kept(steps) {
  const near = new Uint8Array(steps.length);
  steps.forEach(([kind], n) => {
    if (kind !== " ") near.fill(1, Math.max(0, n - CONTEXT), n + CONTEXT + 1);
  });
  return near;
}
const side = (text, n) => ({line: text.lines[n], number: n + 1, from: text.from[n]});
const GAP = {kind: "gap", text: "…", from: 0};
const EMPTY = {from: 0};

function unified(before, after) {
  const steps = difference(before, after), near = kept(steps), rows = [];
  steps.forEach(([kind, x, y], n) => {
    if (!near[n]) { if (n === 0 || near[n - 1]) rows.push(GAP); return; }
    if (kind === "-") rows.push({...side(before, x), kind: "del"});
    else rows.push({...side(after, y), kind: kind === "+" ? "add" : ""});
  });
  return rows.some((row) => row.kind !== "gap") ? rows : [{kind: "gap", text: "no difference but names of values", from: 0}];
}

function sides(before, after) {
  const steps = difference(before, after), near = kept(steps), left = [], right = [];
  const even = () => { while (left.length < right.length) left.push(EMPTY); while (right.length < left.length) right.push(EMPTY); };
  steps.forEach(([kind, x, y], n) => {
    if (!near[n]) { if (n === 0 || near[n - 1]) { even(); left.push(GAP); right.push(GAP); } return; }
    if (kind === "-") left.push({...side(before, x), kind: "del"});
    else if (kind === "+") right.push({...side(after, y), kind: "add"});
    else { even(); left.push(side(before, x)); right.push(side(after, y)); }
  });
  even();
  return [left, right];
}
