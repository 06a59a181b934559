/* A text in a pane: only the rows that are visible are elements. */
const ROW = 18;
const lit = {lines: new Set(), sets: []};
function light(lines) {
  lit.lines = new Set(lines);
  lit.sets = data.origins.map((origins) => origins.some((origin) => lit.lines.has(origin)));
}

const wholeText = (text) => ({
  length: text.rows, widest: text.widest, at: (n) => ({line: text.lines[n], number: n + 1, from: text.from[n]}), from: (n) => text.from[n],
});
const rowList = (rows, widest) => ({length: rows.length, widest, at: (n) => rows[n], from: (n) => rows[n].from});

class Pane {
  constructor(section) {
    this.section = section;
    this.title = section.querySelector("h2");
    this.scroll = section.querySelector(".scroll");
    this.inner = section.querySelector(".rows");
    this.rows = rowList([], 0);
    this.scroll.addEventListener("scroll", () => {
      this.draw();
      const beside = this === panes.first ? panes.second : this === panes.second ? panes.first : null;
      if (beside && state.mode === "sides" && !beside.section.hidden && beside.scroll.scrollTop !== this.scroll.scrollTop) beside.scroll.scrollTop = this.scroll.scrollTop;
    });
    this.scroll.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row && !getSelection().toString()) mark(data.origins[this.rows.from(+row.dataset.n)]);
    });
    new ResizeObserver(() => this.draw()).observe(this.scroll);
  }
  show(title, rows) {
    this.title.textContent = title;
    this.rows = rows;
    this.inner.style.height = `${rows.length * ROW}px`;
    this.inner.style.width = `calc(${Math.min(rows.widest, 4000)}ch + 6rem)`;
    this.draw(true);
  }
  draw(force) {
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / ROW) - 20);
    const last = Math.min(this.rows.length, Math.ceil((this.scroll.scrollTop + this.scroll.clientHeight) / ROW) + 20);
    const key = `${first}:${last}`;
    if (key === this.drawn && !force) return;
    this.drawn = key;
    let content = "";
    const missing = [];
    for (let n = first; n < last; n++) {
      const row = this.rows.at(n);
      if (row.line !== undefined && !isChunkOpen[chunkOf(row.line)]) missing.push(row.line);
      content += this.rowHtml(row, n);
    }
    this.inner.innerHTML = content;
    const rows = this.rows;
    if (missing.length) track(openChunksOf(missing).then(() => { if (rows === this.rows) this.draw(true); }));
  }
  rowHtml(row, n) {
    let kind = row.kind || "";
    if (row.from) kind += " linked";
    if (lit.sets[row.from]) kind += " lit";
    if (row.line !== undefined && hits[row.line]) kind += " hit";
    const content = row.line === undefined ? row.text || "" : lineTexts[row.line] === undefined ? "" : html(row.line);
    return `<div class="row ${kind}" data-n="${n}" style="top:${n * ROW}px"><b>${row.number ?? ""}</b>${content}</div>`;
  }
  goTo(number) {
    const top = number * ROW, {scrollTop, clientHeight} = this.scroll;
    if (top < scrollTop || top > scrollTop + clientHeight - ROW) this.scroll.scrollTop = Math.max(0, top - clientHeight / 3);
    this.draw(true);
  }
  /* Scroll to the first marked row; redraw in any case. */
  reveal() {
    if (lit.lines.size) for (let n = 0; n < this.rows.length; n++) if (lit.sets[this.rows.from(n)]) { this.goTo(n); return; }
    this.draw(true);
  }
}
