"""The evidence behind a sentence: the chapter's code, its recorded tables, its assertions and its outputs.

Of a name, the statements that it comes from are found by following assignments backwards. Where they begin at
recorded tables they are run again, on the tables as they are now, and so are the assertions about the name.
Where they train something, the stored outputs of the cells and the assertions, which held when these were
made, are what is compared; that the outputs are still those of the code, a test of the notebooks says.
"""

from __future__ import annotations

import ast
import builtins
import json
import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from claims import numbers, text

# What statements may use that are run again: tables, and arithmetic on them. All else may take minutes.
PURE = frozenset({
    "ppobook.results", "ppobook.facts", "ppobook.experiments", "ppobook.evaluation.aggregate",
    "ppobook.teaching.style", "numpy", "pandas", "scipy", "math", "statistics", "itertools", "functools",
    "collections", "re", "json", "textwrap",
})  # fmt: skip
READERS = {"results", "facts"}
MOST = 2000  # numbers of one value
# What a mark may read tables by, whether or not its chapter imports it; it comes before all statements.
READING, READS = -1, ast.parse("from ppobook.experiments import facts, results").body[0]


@dataclass
class Statement:
    """One statement of a chapter's code at the outermost level."""

    index: int
    cell: int
    node: ast.stmt
    defines: set[str]
    uses: set[str]
    fresh: bool
    """True if what it defines is new, and not made of what bore the name before."""
    touches: set[str]
    """Names that it changes and does not define."""

    @property
    def source(self) -> str:
        """The statement on one line."""
        return ast.unparse(self.node)


@dataclass
class Backing:
    """The evidence behind a sentence."""

    tables: list[str] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    asserts: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    """All numbers that it says."""
    spans: list[tuple[float, float]] = field(default_factory=list)
    """Bounds of what it asserts, where they are close together."""
    recomputed: bool = False
    lines: list[str] = field(default_factory=list)
    """The statements that it comes from."""
    wrong: list[str] = field(default_factory=list)


class Chapter:
    """A chapter's code, its stored outputs, and what can be recomputed of it."""

    def __init__(self, source: Path, notebook: Path) -> None:
        self.name = source.stem
        self.text = text.read(source)
        stored = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        code = [cell for cell in stored if cell["cell_type"] == "code"]
        shown = {"".join(cell["source"]).strip(): _plain(cell["outputs"]) for cell in code}
        self.outputs = [shown.get(cell.strip()) for cell in self.text.cells]
        """The text that each cell printed and showed; None where the notebook does not have the cell."""
        self.statements = _statements(self.text.cells)
        self.asserts = [statement for statement in self.statements if _asserts(statement)]
        self.values: dict[str, tuple[Any, list[float]]] = {}
        self.failed: dict[int | str, str] = {}
        """Errors that were raised, by the statement's index or by the expression."""

    @property
    def marked(self) -> list[text.Sentence]:
        """The sentences with a mark."""
        return [sentence for sentence in self.text.sentences if sentence.mark]

    @cached_property
    def names(self) -> set[str]:
        """All names that the chapter's code defines, without what it imports."""
        kinds = ast.Import | ast.ImportFrom
        return set().union(*(s.defines for s in self.statements if not isinstance(s.node, kinds)))

    # --- where things come from -----------------------------------------------------------------------------

    def origin(self, uses: set[str], before: int) -> set[int]:
        """The statements that these names come from, as they are before a statement."""
        found: set[int] = set()
        wanted = [(name, before) for name in uses]
        seen = set(wanted)
        while wanted:
            name, limit = wanted.pop()
            for statement in reversed(self.statements[:limit]):
                if name not in statement.defines:
                    continue
                found.add(statement.index)
                # A function finds its names when it is called.
                late = isinstance(statement.node, ast.FunctionDef)
                more = {(used, limit if late else statement.index) for used in statement.uses - {name}}
                wanted += more - seen
                seen |= more
                if statement.fresh and name not in statement.touches:
                    break
        return found

    def pure(self, indices: set[int]) -> bool:
        """Return whether these statements only read tables and count."""
        return all(_is_pure(self.statements[i].node) for i in indices)

    def tables(self, indices: set[int]) -> list[str]:
        """The recorded tables that these statements read."""
        return list(dict.fromkeys(name for i in sorted(indices) for name in _read(self.statements[i].node)))

    # --- running it again -----------------------------------------------------------------------------------

    def recompute(self) -> None:
        """Evaluate the expressions of all marks that come from tables, and the assertions about them."""
        ends: dict[int, list[str]] = {}
        run: set[int] = set()
        for expression in {e for sentence in self.marked for e in sentence.mark.expressions}:
            origin = self._origin_of(expression)
            # A bare name that no table is behind has a stored output, which is quicker to read.
            wanted = not expression.isidentifier() or self.tables(origin)
            read = bool(_tables(expression))
            if (origin or read) and wanted and self.pure(origin):
                run |= origin | ({READING} if read else set())
                ends.setdefault(max(origin, default=READING), []).append(expression)
        helpers = ast.Import | ast.ImportFrom | ast.FunctionDef
        computed = {i for i in run - {READING} if not isinstance(self.statements[i].node, helpers)}
        for statement in self.asserts:
            origin = self._origin(statement)
            if origin & computed and self.pure(origin):
                run |= {*origin, statement.index}
        space: dict[str, Any] = {"__name__": "claims"}
        for index in sorted(run):
            node = READS if index == READING else self.statements[index].node
            code = ast.fix_missing_locations(ast.Module([node], []))
            try:
                exec(compile(code, self.name, "exec"), space)
            except Exception as error:
                self.failed[index] = f"{type(error).__name__} {error}".strip()
            for expression in ends.get(index, ()):
                try:
                    value = eval(expression, space)
                    if value is not None:  # as of print(…), whose output is stored
                        self.values[expression] = value, flat(value)
                except Exception as error:
                    self.failed[expression] = f"{expression}: {type(error).__name__} {error}"

    def _origin(self, statement: Statement) -> set[int]:
        return self.origin(statement.uses, statement.index)

    def _origin_of(self, expression: str) -> set[int]:
        return self.origin(_used(expression), len(self.statements))

    # --- what stands behind a sentence ----------------------------------------------------------------------

    def backing(self, sentence: text.Sentence) -> Backing:
        """Return what stands behind a marked sentence, and what is wrong with it."""
        backing, unknown = Backing(), []
        for expression in sentence.mark.expressions if sentence.mark else ():
            used = _used(expression) & self.names
            if used or _tables(expression) or self._cells_showing(expression):
                self._add(backing, expression, used)
            else:
                unknown.append(f"its mark names {expression!r}, which the chapter's code does not define")
        backing.wrong = unknown + backing.wrong
        if not backing.wrong and not backing.asserts and not backing.values:
            backing.wrong.append("no table, assertion or output stands behind it")
        chosen = sentence.mark.chosen if sentence.mark else ()
        for number in numbers.in_sentence(sentence.text):
            if any(math.isclose(number.value, x, rel_tol=1e-5) for x in chosen):
                continue
            if not numbers.says(number, backing.values, backing.spans):
                backing.wrong.append(f"it says {number.text!r}, and what stands behind it does not")
        return backing

    def _add(self, backing: Backing, expression: str, used: set[str]) -> None:
        origin = self._origin_of(expression)
        read = [*self.tables(origin), *_tables(expression)]
        backing.tables += [table for table in dict.fromkeys(read) if table not in backing.tables]
        backing.lines += [self.statements[i].source for i in sorted(origin)]
        about = [statement for statement in self.asserts if used & statement.uses]
        for statement in about:
            if statement.source not in backing.asserts:
                backing.asserts.append(statement.source)
            # What an assertion bounds is looser than what can be computed.
            if expression not in self.values:
                backing.values += _constants(statement.node)
                backing.spans += _spans(statement.node)
        needed = origin.union(*({statement.index} | self._origin(statement) for statement in about))
        causes = [READING, *sorted(needed), expression]
        failed = [self.failed[cause] for cause in causes if cause in self.failed]
        # Where one line fails, those that need it fail too; the first says why.
        backing.wrong += failed[:1]
        if expression in self.values:
            value, found = self.values[expression]
            backing.recomputed = True
            backing.values += found + _constants(ast.parse(expression, mode="eval"))
            backing.shown.append(f"{expression} = {_short(value)}")
            backing.cells += [self.statements[max(origin)].cell] if used else []
            return
        for cell in self._cells_showing(expression) or self._cells_of(used):
            if cell not in backing.cells:
                backing.cells.append(cell)
                output = self.outputs[cell]
                if output is None:
                    backing.wrong.append(f"the notebook does not have code cell {cell + 1}: make notebooks")
                backing.values += numbers.in_text(output or "")
                backing.shown += [output] if output else []

    def _cells_showing(self, expression: str) -> list[int]:
        """The cells in which the expression is a line of its own, which shows its value."""
        shown = (s for s in self.statements if isinstance(s.node, ast.Expr))
        return sorted({s.cell for s in shown if s.source == _on_one_line(expression)})

    def _cells_of(self, used: set[str]) -> list[int]:
        """The cells that define one of the names or show it."""
        return sorted({
            s.cell for s in self.statements
            if used & s.defines or (isinstance(s.node, ast.Expr | ast.For | ast.With) and used & s.uses)
        })  # fmt: skip


# --- statements ---------------------------------------------------------------------------------------------


def _statements(cells: tuple[str, ...]) -> list[Statement]:
    found: list[Statement] = []
    modules: set[str] = set()
    for cell, source in enumerate(cells):
        plain = "\n".join(line for line in source.splitlines() if not line.startswith("%"))
        for node in (part for whole in ast.parse(plain).body for part in _one_by_one(whole)):
            defines, uses = _defines(node), _names(node)
            modules |= defines if isinstance(node, ast.Import | ast.ImportFrom) else set()
            touched = _touched(node) - defines - modules
            fresh = not (defines & uses and not isinstance(node, ast.FunctionDef))
            found.append(Statement(len(found), cell, node, defines | touched, uses, fresh, touched))
    return found


def _asserts(statement: Statement) -> bool:
    """Return whether it is an assertion, or a loop of them."""
    if isinstance(statement.node, ast.FunctionDef | ast.ClassDef):
        return False
    return any(isinstance(node, ast.Assert) for node in ast.walk(statement.node))


def _one_by_one(node: ast.stmt) -> list[ast.stmt]:
    """An import of several names as several imports, of which one may be needed without the others."""
    if isinstance(node, ast.ImportFrom):
        return [
            ast.copy_location(ast.ImportFrom(node.module, [alias], node.level), node) for alias in node.names
        ]
    return [node]


def _defines(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return {n.id for n in _outermost(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _touched(node: ast.stmt) -> set[str]:
    """Names whose objects a statement changes: `table["x"] = …`, `rows.append(…)`; of a function, others'."""
    if isinstance(node, ast.ClassDef):
        return set()
    function = isinstance(node, ast.FunctionDef)
    found = set()
    for inner in ast.walk(node) if function else _outermost(node):
        if isinstance(inner, ast.Subscript | ast.Attribute) and isinstance(inner.ctx, ast.Store):
            found |= {_root(inner)}
        call = inner.value if isinstance(inner, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            found |= {_root(call.func)}
    return (found & _names(node) if function else found) - {""}


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _outermost(node: ast.AST) -> list[ast.AST]:
    """The node and what is in it, without the names that only a comprehension or a function knows."""
    found, waiting = [], [node]
    while waiting:
        one = waiting.pop()
        found.append(one)
        own = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda | ast.FunctionDef
        waiting += [child for child in ast.iter_child_nodes(one) if not isinstance(child, own)]
    return found


def _names(node: ast.AST) -> set[str]:
    """The names that a node reads from outside of it, without builtins."""
    read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    own: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.AugAssign):
            read |= {_root(inner.target)} - {""}
        if isinstance(inner, ast.arg):
            own.add(inner.arg)
        if isinstance(inner, ast.comprehension):
            own |= {n.id for n in ast.walk(inner.target) if isinstance(n, ast.Name)}
    if isinstance(node, ast.For | ast.With | ast.If):
        own |= _set_before_read(node)
    if isinstance(node, ast.FunctionDef):
        own |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        own |= {node.name}
    return {name for name in read - own if not hasattr(builtins, name)}


def _used(expression: str) -> set[str]:
    """The names in a mark's expression."""
    return _names(ast.parse(expression, mode="eval"))


def _tables(expression: str) -> list[str]:
    """The recorded tables that a mark's expression reads itself."""
    return _read(ast.parse(expression, mode="eval"))


def _read(node: ast.AST) -> list[str]:
    """The recorded tables that a node reads."""
    return [
        call.args[0].value for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in READERS
        and call.args and isinstance(call.args[0], ast.Constant)
    ]  # fmt: skip


def _on_one_line(expression: str) -> str:
    """An expression as `ast.unparse` writes it; nothing if it is not one."""
    try:
        return ast.unparse(ast.parse(expression, mode="eval"))
    except SyntaxError:
        return ""


def _set_before_read(node: ast.stmt) -> set[str]:
    """The names that a compound statement gives a value on an earlier line than it reads them."""
    first: dict[tuple[str, bool], int] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
            first[inner.target.id, True] = 0
        if isinstance(inner, ast.Name):
            key = inner.id, isinstance(inner.ctx, ast.Load)
            first[key] = min(inner.lineno, first.get(key, inner.lineno))
    if isinstance(node, ast.For):
        first |= {(n.id, False): -1 for n in ast.walk(node.target) if isinstance(n, ast.Name)}
    return {
        name for (name, read), line in first.items() if not read and line < first.get((name, True), line + 1)
    }


def _is_pure(node: ast.stmt) -> bool:
    if isinstance(node, ast.ImportFrom):
        return all(_allowed(f"{node.module}.{alias.name}") for alias in node.names)
    if isinstance(node, ast.Import):
        return all(_allowed(alias.name) for alias in node.names)
    return not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call)


def _allowed(name: str) -> bool:
    return any(name == pure or name.startswith(f"{pure}.") for pure in PURE)


# --- numbers ------------------------------------------------------------------------------------------------


def _constants(node: ast.AST) -> list[float]:
    """The numbers that an assertion names, and the fractions that it makes of them."""
    found = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, int | float):
            found.append(float(inner.value))
        if isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.USub):
            found += [-number for number in _constants(inner.operand)]
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div | ast.Mult | ast.Pow):
            both = inner.left, inner.right
            if all(isinstance(side, ast.Constant) for side in both):
                found.append(float(eval(ast.unparse(inner))))
    return found


def _spans(node: ast.AST) -> list[tuple[float, float]]:
    """The bounds in `15 < x < 17`, where the upper is at most 1.7 times the lower."""
    found = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.Compare):
            ends = [x.value for x in (inner.left, inner.comparators[-1]) if isinstance(x, ast.Constant)]
            if len(ends) == 2 and all(isinstance(end, int | float) for end in ends):
                low, high = sorted(map(float, ends))
                found += [(low, high)] if low > 0 and high <= 1.7 * low else []
    return found


def flat(value: Any) -> list[float]:
    """All numbers of a value: of a table, its index too."""
    if isinstance(value, str):
        return numbers.in_text(value)
    if isinstance(value, dict):
        return flat(list(value)) + flat(list(value.values()))
    if hasattr(value, "reset_index"):
        # Which seed a row is of, or only that it is the third one, is nothing that was measured.
        unsaid = [name is None or name == "seed" for name in value.index.names]
        value = value.droplevel([i for i, out in enumerate(unsaid) if out]) if not all(unsaid) else value
        value = value.reset_index(allow_duplicates=True, drop=all(unsaid))
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple | set):
        return [x for item in value for x in flat(item)][:MOST]
    return [float(value)] if isinstance(value, int | float) else []


def _short(value: Any) -> str:
    """A value in a few lines."""
    said = value.to_string() if hasattr(value, "to_string") else _rounded(value)
    lines = said.splitlines()
    return "\n".join([*lines[:12], *(["…"] if len(lines) > 12 else [])])


def _rounded(value: Any) -> str:
    said = re.sub(r"np\.\w+\(([^()]*)\)", r"\1", repr(value))
    return re.sub(r"\d+\.\d{5,}(?!\d|e)", lambda found: f"{float(found[0]):.4g}", said)


def _plain(outputs: list[dict[str, Any]]) -> str:
    """Return what a cell printed, and the plain form of what it showed."""
    said = []
    for output in outputs:
        part = output.get("text") or output.get("data", {}).get("text/plain", "")
        said.append("".join(part))
    return re.sub(r"<(?:Figure|Axes)[^>]*>", "", "\n".join(said)).strip()
