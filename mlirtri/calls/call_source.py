"""Write the shortest call of a kernel for arguments of given classes, as lines of Python.

A call checks its arguments, allocates the results, launches, and returns Python's value. Memory of rank 0 and small
intermediates are pooled: a call takes a set of them from a list and puts it back, so that calls in threads share none.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from mlirtri.calls.call_memory import Memory, flat, kept_dtype, new_array, number_condition, view_text
from mlirtri.calls.call_parts import guard_apart, launch_pointers
from mlirtri.calls.callee import Callee, Impossible
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.lowering.core.interface import Leaf, like, parts_of
from mlirtri.lowering.runtime.launches import ARGUMENT, CONSTANT, RESULT, Launch, Operand


class Variant:
    """The call for arguments of these classes, and for one class of `out`, or a tuple of them.

    Raises `Impossible` where the general call is needed. `strided` are arguments to copy where they are not contiguous.
    """

    def __init__(self, callee: Callee, kinds: Sequence[type], out: Any, strided: frozenset[int], number: int):
        self.callee, self.kinds, self.out, self.strided = callee, tuple(kinds), out, strided
        self.interface, self.launches = callee.interface, callee.launches
        self.types = [parameter.type for parameter in self.interface.parameters]
        self.prefix = f"v{number}_"
        self.names: dict[str, Any] = {}
        """The globals that the lines use."""
        self.tensor_class = getattr(sys.modules.get("torch"), "Tensor", None)
        self.gives_tensors = self.tensor_class in self.kinds or not (
            callee.returns_arrays or any(issubclass(kind, (np.ndarray, np.generic)) for kind in self.kinds)
        )
        if self.gives_tensors and self.tensor_class is None:
            raise Impossible
        callee.check_device(self.kinds, self.tensor_class)
        self.result_class: Any = self.tensor_class if self.gives_tensors else np.ndarray
        self.is_checked = bool(callee.updates) or not self.launches.checks or self.launches.takes_tensors
        """Whether the call checks all types itself, as launches that have written something cannot be repeated."""
        self.memory = Memory(self.launches)
        self.outs = self._outs()
        parameters = enumerate(self.interface.parameters)
        self.in_place_views = {n for n, p in parameters if p.strides is not None and self._is_memory(n)}
        """Arguments that are read and written where they lie, whatever their strides."""
        self.conditions, self.preparation, self.guards = self._conditions(), list[str](), list[str]()
        self.launching, self.ending = list[str](), list[str]()
        self._prepare()
        self._launch()
        self._end()
        self.body = self._body()

    def _body(self) -> list[str]:
        if items := self.memory.items:
            pool, fresh = self.name("pool", []), self.name("fresh", self.memory.fresh)
            taking = ["try:", f"    entry = {pool}.pop()", "except IndexError:", f"    entry = {fresh}()"]
            taking.append(f"{', '.join(items)}, = entry")
            return [*taking, *self.launching, *self.ending[:-1], f"{pool}.append(entry)", self.ending[-1]]
        return [*self.launching, *self.ending]

    def name(self, stem: str, value: object) -> str:
        """Return a global name of this value."""
        name = f"{self.prefix}{stem}"
        self.names[name] = value
        return name

    def _conditions(self) -> list[str]:
        conditions = ["out is None"] if self.out is None else []
        if type(self.out) is tuple:
            conditions.append(f"type(out) is tuple and len(out) == {len(self.out)}")
        elif self.out is not None:
            conditions += [f"type(out) is {self.name('out_class', self.out)}"]
        for number, (kind, type_) in enumerate(zip(self.kinds, self.types, strict=True)):
            conditions.append(f"type(a{number}) is {self._class(kind)}")
            is_unknown = self._is_array(number) and kept_dtype(type_.dtype) is None and type_.dtype.name != "float16"
            if is_unknown or (number in dict(self.interface.updates) and not self._is_memory(number)):
                raise Impossible
            if not self._is_memory(number):
                conditions += number_condition(f"a{number}", kind, type_)
        return conditions

    def _class(self, kind: type) -> str:
        return self.name(f"class_{kind.__name__}", kind)

    def _is_array(self, number: int) -> bool:
        return self.kinds[number] is np.ndarray

    def _is_memory(self, number: int) -> bool:
        return self.kinds[number] in (np.ndarray, self.tensor_class)

    def _outs(self) -> dict[int, str]:
        """Return the names of `out`'s tensors by result."""
        if self.out is None:
            return {}
        indices = [leaf.index for leaf in self.callee.leaves]
        kinds = self.out if type(self.out) is tuple else (self.out,)
        is_known = len(set(indices)) == len(indices) == len(kinds) and {*kinds} == {self.result_class}
        if not is_known or self.callee.updates or any(leaf.counts for leaf in self.callee.leaves):
            raise Impossible
        return {index: f"o{position}" for position, index in enumerate(indices)}

    # What comes before the launches: contiguous arguments, shapes of results, guards.

    def _prepare(self) -> None:
        if type(self.out) is tuple:
            self.preparation.append(f"{', '.join(self.outs.values())}, = out")
        elif self.out is not None:
            self.preparation.append("o0 = out")
        written = {number for number, _ in self.interface.updates}
        self._flatten_and_copy(written)
        if self.callee.shapes is not None:
            self._find_shapes()
        self._guard_arrays(written)
        self._guard_tensors()
        self._guard_strides()
        if written:
            self._guard_overlaps([(w, o) for w in sorted(written) for o in range(len(self.kinds)) if o != w])
        if self.out is not None:
            self._guard_outs()

    def _flatten_and_copy(self, written: set[int]) -> None:
        """Flatten the arguments of pointers, and copy those that were seen not to be contiguous."""
        pointers = {number for number, parameter in enumerate(self.interface.parameters) if parameter.is_memory}
        for number in sorted(pointers):
            self.preparation.append(f"a{number} = {self.name('flat', flat)}(a{number})")
        for number in sorted(self.strided - written - pointers - self.in_place_views):
            copying = self.launching if self.callee.updates else self.preparation
            if self._is_array(number):
                copy = f"a{number} = {self.name('array', np.array)}(a{number}, order='C')"
                copying.append(f"if not a{number}.flags.c_contiguous: {copy}")
            elif self._is_memory(number) and not self.callee.updates:
                copying.append(f"if not a{number}.is_contiguous(): a{number} = a{number}.contiguous()")

    def _guard_strides(self) -> None:
        if self.in_place_views and self.out is not None:
            raise Impossible
        for number in sorted(self.in_place_views):
            strides = f"a{number}.{'strides' if self._is_array(number) else 'stride()'}"
            if number in self.callee.updates:
                strides = f"({strides}, a{number}.shape)"
            known: set[Any] = set()
            accept = self.name(f"accept{number}", partial(self.callee.accept, number, known))
            self.guards.append(f"({strides} in {self.name(f'strides{number}', known)} or {accept}(a{number}))")

    def _find_shapes(self) -> None:
        known: dict[Any, Any] = {}
        facts = [f"a{number}.shape" for number in range(len(self.kinds)) if self._is_memory(number)]
        for argument, *indices in self.callee.shapes.elements:
            if argument >= len(self.kinds):
                raise Impossible
            index = ", ".join(map(str, indices))
            read = f"a{argument}.item({index})" if self._is_array(argument) else f"a{argument}[{index or '()'}].item()"
            facts.append(read if self._is_memory(argument) else f"a{argument}")
        remember = self.name("remember", partial(self.callee.remember, known, self.gives_tensors))
        arguments = "".join(f"a{number}, " for number in range(len(self.kinds)))
        key = facts[0] if len(facts) == 1 else f"({', '.join(facts)})"
        self.preparation.append(f"z = {self.name('find', known.get)}(key := {key}) or {remember}(key, ({arguments}))")

    def _is_launched(self, number: int) -> bool:
        return any(
            operand.kind == ARGUMENT and operand.number == number
            for step in self.launches.steps
            for operand in step.operands
        )

    def _guard_arrays(self, written: set[int]) -> None:
        for number, type_ in enumerate(self.types):
            if not self._is_array(number):
                continue
            self._guard_array(f"a{number}", type_, self.is_checked or not self._is_launched(number))
            if not self.is_checked:
                continue
            # NumPy exports no read-only memory, and torch warns about it.
            if number in self.in_place_views:
                self.guards.append(f"a{number}.flags.writeable")
                continue
            is_plain = "c_contiguous" if self.launches.takes_pointers and number not in written else "carray"
            plain = f"a{number}.flags.{is_plain}"
            is_copied = number in self.strided and number not in written
            self.guards.append(f"({plain} or not a{number}.flags.c_contiguous)" if is_copied else plain)

    def _guard_array(self, name: str, type_: TensorType, is_checked: bool) -> None:
        if is_checked or self.callee.compiled(type_.dtype) is not None:
            # Not their identity: unpickled arrays have dtypes of their own.
            self.guards.append(f"{name}.dtype == {self.name(f'{name}_dtype', type_.dtype.numpy)}")
        if is_checked and type_.is_static:
            self.guards.append(f"{name}.shape == {self.name(f'{name}_shape', tuple(type_.shape))}")

    def _guard_tensors(self) -> None:
        tensors = {f"a{n}": self.types[n] for n in range(len(self.kinds)) if self.kinds[n] is self.tensor_class}
        if self.gives_tensors:
            tensors |= {name: self.interface.leaves[index] for index, name in self.outs.items()}
        if not tensors:
            return
        from mlirtri.calls.torch_guards import guard_of

        is_checked = self.is_checked or not all(
            self._is_launched(int(name[1:])) for name in tensors if name.startswith("a")
        )
        has_views = any(self.callee.compiled(type_.dtype) is not None for type_ in tensors.values())
        views = [name.startswith("a") and int(name[1:]) in self.in_place_views for name in tensors]
        guards, guard = guard_of([*tensors.values()], is_checked or has_views, views, self.callee.device)
        given = ", ".join(tensors)
        self.guards.append(f"({self.name('guards', guards)}({given}) or {self.name('are_plain', guard)}({given}))")
        if self.is_checked and self.callee.shapes is not None:
            pairs = zip(tensors, views, strict=True)
            self.guards += [f"{name}.is_contiguous()" for name, is_view in pairs if not is_view]

    def _guard_overlaps(self, pairs: Sequence[tuple[int, int]]) -> None:
        unordered = dict.fromkeys((min(pair), max(pair)) for pair in pairs if all(map(self._is_memory, pair)))
        if any(number in self.in_place_views and not self._is_array(number) for pair in unordered for number in pair):
            # How far a view of torch's reaches takes longer to find than the general call.
            raise Impossible
        types = {f"a{n}": self.types[n] for pair in unordered for n in pair}
        kinds = {self.kinds[n] for pair in unordered for n in pair}
        guard_apart(self, [(f"a{first}", f"a{second}") for first, second in unordered], types, kinds)

    def _guard_outs(self) -> None:
        types = {name: self.interface.leaves[index] for index, name in self.outs.items()}
        memories = {f"a{n}": type_ for n, type_ in enumerate(self.types) if self._is_memory(n)}
        is_separate = self.launches.separates and self.launches.checks
        for index, name in self.outs.items():
            self.guards.insert(0, f"type({name}) is {self._class(self.result_class)}")
            if self.gives_tensors and self.callee.shapes is None:
                continue
            if not self.gives_tensors:
                self._guard_array(name, types[name], not is_separate)
            if not is_separate:
                self.guards += [f"{name}.flags.carray"] if not self.gives_tensors else [f"{name}.is_contiguous()"]
            if self.callee.shapes is not None:
                self.guards.append(f"{name}.shape == z[{index}][0]")
        if is_separate:
            # The launch refuses them too, but slower than the general call.
            self.guards += [f"o0 is not {name}" for name in memories]
            return
        if self.interface.bound:
            raise Impossible
        names = [*types]
        pairs = [(name, other) for name in names for other in memories]
        pairs += [(first, second) for position, first in enumerate(names) for second in names[:position]]
        kinds = {self.result_class, *(kind for number, kind in enumerate(self.kinds) if self._is_memory(number))}
        guard_apart(self, pairs, types | memories if pairs else {}, kinds)

    def _launch(self) -> None:
        for number, type_ in enumerate(self.types):
            if not self._is_memory(number):
                self.memory.keep(f"c{number}", type_, self.callee.compiled(type_.dtype))
                self.launching.append(f"c{number}[()] = a{number}")
        for index, type_ in enumerate(self.interface.leaves):
            if index in self.callee.in_place or index in self.outs:
                continue
            if self._is_kept(index, type_):
                self.memory.keep(f"k{index}", type_, self.callee.compiled(type_.dtype))
            else:
                self.launching.append(f"r{index} = {self._new_result(index, type_)}")
        for position, step in enumerate(self.launches.steps):
            if self.launches.takes_pointers:
                launch_pointers(self, step)
            else:
                self._launch_tensors(position, step)
        for index, operand in self.launches.copies:
            self._copy(index, operand)

    def _is_kept(self, index: int, type_: TensorType) -> bool:
        """Return whether a result of rank 0 is read by the call itself: its memory is nobody else's."""
        is_here = self.callee.device == "cpu"
        if not is_here or type_.shape or kept_dtype(type_.dtype) is None or index in self.callee.updates.values():
            return False
        is_number = index in self.interface.numbers
        return not self.gives_tensors or is_number or all(leaf.index != index for leaf in self.callee.leaves)

    def _new_result(self, index: int, type_: TensorType) -> str:
        if self.gives_tensors:
            from mlirtri.calls.torch_guards import contiguous_strides, shortest_empty

            make, dtype = (
                self.name("empty", shortest_empty(self.callee.device)),
                self.name(f"r{index}_dtype", type_.dtype.torch),
            )
            if self.callee.shapes is not None:
                return f"{make}(*z[{index}], {dtype})"
            shape = tuple(type_.shape)
            shapes = self.name(f"r{index}_shape", shape), self.name(f"r{index}_strides", contiguous_strides(shape))
            return f"{make}({', '.join(shapes)}, {dtype})"
        if type_.dtype.kind == "v":
            raise Impossible
        dtype = self.name(f"r{index}_dtype", type_.dtype.numpy)
        if self.callee.shapes is not None:
            return f"z[{index}][1](z[{index}][0], {dtype})"
        shape = tuple(type_.shape)
        make = self.name(f"r{index}_make", new_array(shape, type_.dtype))
        return f"{make}({self.name(f'r{index}_shape', shape)}, {dtype})"

    def located(self, operand: Operand) -> tuple[str, TensorType | None, bool, Any]:
        """Return an operand's name, type, whether it is an array, and its tensor if every call has the same."""
        number = operand.number
        if operand.kind == RESULT and number not in self.callee.in_place:
            type_ = self.interface.leaves[number]
            name = self.outs.get(number) or (f"k{number}" if f"k{number}" in self.memory.kept else f"r{number}")
            return name, type_, not self.gives_tensors, None
        if operand.kind == RESULT:
            number = self.callee.in_place[number]
        elif operand.kind == CONSTANT:
            return f"constant{number}", None, False, self.launches.constants[number]
        elif operand.kind != ARGUMENT:
            return f"s{number}", None, False, None
        if number >= len(self.kinds):
            return f"bound{number}", None, False, self.callee.bound()[number - len(self.kinds)]
        name = f"a{number}" if self._is_memory(number) else f"c{number}"
        return name, self.types[number], self._is_array(number), None

    def _launch_tensors(self, position: int, step: Launch) -> None:
        values = []
        for operand in step.operands:
            name, type_, is_array, fixed = self.located(operand)
            if fixed is not None:
                reshaped = fixed if operand.shape is None else fixed.reshape(operand.shape)
                value = self.name(f"{name}_{position}", self.launches.prepared(reshaped))
            elif name in self.memory.kept:
                value = self.memory.prepared(name, operand.shape)
            elif type_ is None:
                value = self._scratch(operand, name)
            else:
                value = view_text(self, name, type_, is_array, operand.shape)
            values.append(value)
        self.launching.append(f"{self.name(f'launch{position}', step.function)}({', '.join(values)})")
        if not self.launches.keeps_scratch:
            self.launching += [f"del s{number}" for number in step.last_uses]

    def _scratch(self, operand: Operand, name: str) -> str:
        scratch = self.launches.scratch[operand.number]
        if self.launches.keeps_scratch:
            return self.memory.scratch(name, scratch, operand.shape)
        if all(not line.startswith(f"{name} = ") for line in self.launching):
            if not any(line.startswith("arena = ") for line in self.launching):
                self.launching.append(f"arena = {self.name('new_arena', self.launches.new_arena)}()")
            self.launching.append(f"{name} = {self.name(f'{name}_within', scratch.within)}(arena)")
        shape = operand.shape
        return name if shape is None else f"{name}.reshape({self.name(f'{name}_{len(self.names)}', shape)})"

    def _copy(self, index: int, operand: Operand) -> None:
        name, type_, is_array, fixed = self.located(operand)
        target, target_type, *_ = self.located(Operand(RESULT, index))
        is_number = name.startswith("c") and fixed is None
        if fixed is None and (type_ is None or (is_array == self.gives_tensors and not is_number)):
            raise Impossible
        if fixed is not None:
            if self.callee.compiled(target_type.dtype) is not None or target_type.dtype.kind == "v":
                raise Impossible
            name = self.name(
                f"{name}_copied",
                sys.modules["torch"].from_dlpack(fixed) if self.gives_tensors else np.from_dlpack(fixed),
            )
        if operand.shape is not None:
            name = f"{name}.reshape({self.name(f'copy{index}_shape', operand.shape)})"
        is_tensor = self.gives_tensors and target not in self.memory.kept
        self.launching.append(
            f"{target}.{'fill_' if is_number else 'copy_'}({name})" if is_tensor else f"{target}[...] = {name}"
        )

    # What comes after the launches: checks, updates, Python's value.

    def _end(self) -> None:
        for index in dict.fromkeys(check.index for check in self.interface.checks):
            code = f"{self.located(Operand(RESULT, index))[0]}.item()"
            self.ending.append(f"if {code}: raise {self.name('failing', self.callee.failing)}({index}, {code})")
        for number, index in self.interface.updates:
            if index not in self.callee.in_place:
                self.ending.append(
                    f"a{number}[...] = r{index}" if self._is_array(number) else f"a{number}.copy_(r{index})"
                )
        value = "out" if self.out is not None else self._value(self.interface.tree)
        self.ending += [f"value = {value}", "return value"] if self.memory.items else [f"return {value}"]

    def _value(self, tree: Any) -> str:
        if tree is None:
            return "None"
        if not isinstance(tree, Leaf):
            parts = [self._value(part) for part in parts_of(tree)]
            if type(tree) is tuple:
                return f"({''.join(f'{part}, ' for part in parts)})"
            text = f"[{', '.join(parts)}]"
            if type(tree) is list:
                return text
            return f"{self.name('like', like)}({self.name(f'tree{id(tree)}', tree)}, {text})"
        name, type_, *_ = self.located(Operand(RESULT, tree.index))
        for axis, count in tree.counts:
            number = f"{self.located(Operand(RESULT, count))[0]}.item()"
            name += f".narrow({axis}, 0, {number})" if self.gives_tensors else f"[{':, ' * axis}:{number}]"
        if tree.index in self.interface.numbers:
            return f"{name}.item()"
        if self.gives_tensors or type_.shape:
            return name
        return f"{name}.copy()" if tree.is_array else f"{name}[()]"
