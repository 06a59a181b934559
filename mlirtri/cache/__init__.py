"""The disk cache: compiled kernels as files that other processes read, without a compiler.

*Takes* what a kernel is compiled from (`key.py`), and a compiled kernel with what it read from outside.
*Gives* the same kernel in another process, if every fact and every captured value is the same there.
*Refuses* entries whose files are not as they were written (they are moved aside), and to keep kernels of which
something cannot be described by content.
`kernels`, `programs` and `cli` import it. It loads neither MLIR nor TVM's compiler.

- `digests.py`: values of Python described by content.
- `key.py`: the facts that decide what a compilation gives, known before it.
- `captures.py`: what a kernel read from outside, as paths that another process follows.
- `store.py`: folders that several processes share: written at once, locked, checked, pruned.
- `writes.py`: locks between processes; writing in the background.
- `entries.py`: a kernel as the files of an entry, and back.
- `misses.py`: why there is no entry: the facts in which the most similar one differs.
"""
