"""Trace pages: every stage and pass of kernels as one page of HTML, with lines that belong together.

*Takes* texts of stages and passes as data (`TracedKernel`). *Gives* a self-contained page, which needs no network.
*Refuses* nothing: a text without locations has no related lines, a kernel that failed has the stages before.
`compiler`, `kernels` and `cli` import it. It loads neither MLIR nor TVM.

Read in this order:

- `data.py`: what a page shows.
- `source_lines.py`: the user's line of each line of a text, by the locations in it.
- `unified.py`: differences of two texts, in which renamed SSA values are none.
- `mlir_lexer.py`: Pygments' lexer of MLIR. `colours.py`: colours of lines, once for all that differ in numbers
  only; texts for cells of notebooks.
- `chunks.py`: lines and texts in compressed chunks, which the browser opens when it shows them.
- `listing.py`: assembly of one kernel, with the user's lines.
- `plots.py`: the fusion graph, times and the roofline as SVG.
- `page.py`: the page, also while its kernel is compiled. Its parts are `page.html`, `page.css` and the scripts:
  `lines.js` (chunks), `difference.js`, `pane.js` (rows that are visible), `search.js`, `page.js` (the list, keys,
  links), `watch.js` (loads it again).
"""
