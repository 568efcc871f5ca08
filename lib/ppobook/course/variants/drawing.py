"""A variant of one part: its statement, its starting code, its adapter, and the reference solution."""

from __future__ import annotations

import ast
import copy
import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ppobook.teaching.tags import Cell, Notebook, exercises, part

from . import units
from .declarations import Declaration, Option, function_of, lettered, permutation
from .forms import Form, book_form

__all__ = ["Variant", "draw", "variant"]

_HINT = re.compile(r"^:::+\{dropdown\}.*?^:::+[ \t]*$\n*", re.M | re.S)


def draw(secret: str | bytes, assignment: str, part: str, declaration: Declaration) -> Variant:
    """The variant of a part in an assignment of the course that has this secret.

    The same three give the same variant; without the secret nobody can say which it is.
    """
    if declaration.practice:
        raise ValueError(
            f"declaration must vary, got {part!r}, which is for practice: {declaration.practice}"
        )
    key = secret.encode() if isinstance(secret, str) else secret
    digest = hmac.new(key, f"{assignment}/{part}".encode(), hashlib.sha256).digest()
    return variant(declaration, int.from_bytes(digest) % declaration.count)


def variant(declaration: Declaration, number: int) -> Variant:
    """The variant of that number, from 0 to `declaration.count` - 1, as `draw` chooses one."""
    places, drawn = [], number
    for count in declaration.counts:
        number, place = divmod(number, count)
        places.append(place)
    order, returned, letters, *chosen = places
    # The first permutation is the book's order, so it is left out.
    moved = iter(permutation(declaration.moving, order + 1) if declaration.moving else ())
    options = [rows[place] for rows, place in zip(declaration.choices, chosen, strict=True)]
    named = {name: unit for option in options for name, unit in option.units.items()}
    keys = {book: course for option in options for book, course in option.keys.items()}
    if declaration.letters:
        keys |= lettered(declaration.letters, letters)
    form = Form(
        parameters=declaration.parameters,
        optional=declaration.optional,
        order=tuple(next(moved) if n in declaration.moving else n for n in declaration.parameters),
        arguments={n: u for n, u in named.items() if n in (*declaration.parameters, *declaration.optional)},
        outputs=declaration.outputs,
        returned=permutation(declaration.outputs, returned + 1) if declaration.outputs else (),
        results={n: u for n, u in named.items() if n in (*declaration.outputs, "result")},
        keys=keys,
    )
    text = tuple(pair for option in options for pair in option.text)
    call = f'lettered("{declaration.letters}", {letters})'
    text += tuple((old, new.replace("{letters}", call)) for old, new in declaration.letters_text)
    letters_call = call if declaration.letters else ""
    return Variant(declaration, drawn, form, tuple(options), text, letters_call)


@dataclass(frozen=True)
class Variant:
    """One part of an assignment in a course's own form.

    `number` says which of the declaration's variants it is, `form` how its function differs from the book's.
    `options` are what was chosen, `text` are the changes of the exercise's cells, old text and new, and
    `letters` is the call that letters the cases of a clinic.
    """

    declaration: Declaration
    number: int
    form: Form
    options: tuple[Option, ...] = ()
    text: tuple[tuple[str, str], ...] = ()
    letters: str = ""

    # --- for the check

    def adapter(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The student's function in the form that the book's check calls."""
        form = self.form
        return book_form(
            function,
            " ".join(form.parameters),
            optional=" ".join(form.optional),
            order=" ".join(form.order),
            outputs=" ".join(form.outputs),
            returned=" ".join(form.returned),
            arguments=form.arguments,
            results=form.results,
            keys=form.keys,
        )

    def message(self, text: str) -> str:
        """A check's message on an answer that is not right, made true for this form."""
        if self.declaration.letters:
            one = f"[{self.declaration.letters}]"
            cases = rf"(?<=\bcase ){one}\b|\b{one}(?=[✓✗–:])"
            text = re.sub(cases, lambda found: self.form.keys[found[0]], text)
        return f"{text}\n  {self.note}" if self.note else text

    @property
    def note(self) -> str:
        """Return the note on the function's form for a check's message; "" where both forms are the same."""
        if not self._calls or self.letters:
            return ""
        name, arguments = self.declaration.function, ", ".join(self.form.parameters + self.form.optional)
        own = " ".join(option.say for option in self.options if option.say)
        return f"(This message speaks of the book's form, {name}({arguments}). {own}".rstrip() + ")"

    # --- for the student

    @property
    def statement(self) -> str:
        """The sentences that are put into the statement; empty where only the exercise's text differs."""
        return " ".join(self._sentences())

    @cached_property
    def _calls(self) -> bool:
        """Return whether the function is called in another way than the book's."""
        form = self.form
        units_or_keys = form.arguments or form.results or form.keys
        return bool(units_or_keys) or (form.order, form.returned) != (form.parameters, form.outputs)

    def _sentences(self) -> Iterator[str]:
        name, form = self.declaration.function, self.form
        if form.order != form.parameters:
            yield f"In this course `{name}` takes its arguments in the order `({', '.join(form.order)})`."
        elif form.parameters or form.returned != form.outputs:
            yield f"In this course `{name}` has a form of its own."
        if form.returned != form.outputs:
            yield f"It returns `({', '.join(form.returned)})`, in this order."
        for option in self.options:
            if option.say:
                yield option.say
            else:
                for name, unit in option.units.items():
                    what = "What comes back" if name == "result" else f"`{name}`"
                    yield f"{units.said(unit, what)}."
                if option.keys:
                    pairs = (f"`{course}` for `{book}`" for book, course in option.keys.items())
                    yield f"The keys of what comes back are named in another way: {', '.join(pairs)}."
        if self.letters:
            yield "In this course the cases are lettered in another way than in the book."
        elif self._calls:
            yield (
                "All else is as above. The check and the cells below call it in the book's form, through "
                f"`book_{self.declaration.function}`."
            )

    def _retold(self, source: str) -> str:
        """A text with the variant's changes, all at once: one may be of words that stand in another's."""
        new = dict(self.text)
        olds = sorted(map(re.escape, new), key=len, reverse=True)
        return re.sub("|".join(olds), lambda found: new[found[0]], source) if olds else source

    def apply(self, notebook: Notebook) -> Notebook:
        """A reader's notebook with this variant in it: statement, starting code, and the cells that call it.

        Raises
        ------
        ValueError
            The notebook does not have this part.
        """
        changed = copy.deepcopy(dict(notebook))
        cells: list[Cell] = changed["cells"]
        where = next((i for i, c in enumerate(cells) if (p := part(c)) and _solves(p, self)), None)
        if where is None:
            raise ValueError(f"notebook must have the part {self.declaration.part!r}, got none of that name.")
        around = next((e for e in exercises(changed) if e.start <= where < e.stop), None)
        for i, cell in enumerate(cells):
            p = part(cell)
            if p is None or p.role != "solution" or i == where:
                cell["source"] = self._retold(cell["source"])
            hints = all(option.hints for option in self.options)
            if not hints and around and around.start <= i < where and cell["cell_type"] == "markdown":
                cell["source"] = _HINT.sub("", cell["source"]).rstrip()
        solution = cells[where]
        if self._calls:
            solution["source"] = self._start(solution["source"])
            self._rename_calls(cells[where + 1 :])
            cells.insert(where + 1, _cell("code", f"form-{self.declaration.part}", self._bridge()))
        if self.statement:
            text = re.sub("^In this course", "**In this course**", self.statement)
            cells.insert(where, _cell("markdown", f"variant-{self.declaration.part}", text))
        return changed

    def _start(self, source: str) -> str:
        """A solution's cell with the arguments in the course's order and a docstring that says so."""
        function = function_of(source)
        lines = source.splitlines(keepends=True)
        first, body = function.lineno - 1, function.body[0]
        head = self._signature(function)
        docstring = ast.get_docstring(function, clean=False)
        if docstring is None:
            rest = lines[body.lineno - 1 :]
            return "".join([*lines[:first], head, "\n", *rest])
        said = '    """In this course\'s form, as stated above. In the book\'s form it is:\n\n    '
        said += f'{docstring.strip()}\n    """\n'
        rest = lines[body.end_lineno :]
        return "".join([*lines[:first], head, "\n", said, *rest]).rstrip("\n")

    def _signature(self, function: ast.FunctionDef) -> str:
        values = function.args.defaults
        optional = [f"{n}={ast.unparse(v)}" for n, v in zip(self.form.optional, values, strict=True)]
        extra = [f"**{function.args.kwarg.arg}"] if function.args.kwarg else []
        return _def(function.name, [*self.form.order, *optional, *extra])

    def _bridge(self) -> str:
        form, name = self.form, self.declaration.function
        lines = [f"    {name},", f'    "{" ".join(form.parameters)}",']
        if form.optional:
            lines.append(f'    optional="{" ".join(form.optional)}",')
        if form.order != form.parameters:
            lines.append(f'    order="{" ".join(form.order)}",')
        if form.outputs:
            lines.append(f'    outputs="{" ".join(form.outputs)}",')
            lines.append(f'    returned="{" ".join(form.returned)}",')
        for word, value in (("arguments", form.arguments), ("results", form.results)):
            if value:
                lines.append(f"    {word}={dict(value)!r},")
        if form.keys:
            lines.append(f"    keys={self.letters or repr(dict(form.keys))},")
        inner = "\n".join(lines)
        used = "book_form, lettered" if self.letters else "book_form"
        return (
            f"from ppobook.course.variants import {used}\n\n"
            f"# The book's form of your function, for the check and the cells below.\n"
            f"book_{name} = book_form(\n{inner}\n)"
        )

    def _rename_calls(self, cells: list[Cell]) -> None:
        """In the cells below let the book's form be called, until the name is given to something else."""
        name = self.declaration.function
        for cell in cells:
            p = part(cell)
            if cell["cell_type"] != "code":
                continue
            if p is not None and p.role == "solution":
                if function_of(cell["source"]).name == name:
                    return
                continue
            if _binds(cell["source"], name):
                return
            cell["source"] = renamed(cell["source"], {name: f"book_{name}"})

    # --- the way back

    def reference(self, solution: str, others: Mapping[str, Variant] | None = None) -> str:
        """The master's solution in this variant's form, which proves that the variant can be solved.

        Parameters
        ----------
        solution : the source of the master's solution
        others : the variants of the other parts of the same notebook, by part; the solution may call them,
            and does so in the book's form
        """
        solution = re.sub(r"^[ \t]*# solution[ \t]*\n", "", solution, flags=re.M)
        calls = [v.declaration.function for v in (others or {}).values() if v._calls]
        solution = renamed(solution, {n: f"book_{n}" for n in calls if n != self.declaration.function})
        form = self.form
        if not self._calls:
            return solution
        function = function_of(solution)
        lines = solution.splitlines()
        above, own = lines[: function.lineno - 1], lines[function.lineno - 1 : function.end_lineno]
        book = re.sub(rf"^def {function.name}\b", "def in_the_book", "\n".join(own))
        names = [*form.parameters, *form.optional]
        passed = [
            units.expression(form.arguments[n], n, back=True) if n in form.arguments else n for n in names
        ]
        passed = [f"{n}={p}" if n in form.optional else p for n, p in zip(names, passed, strict=True)]
        if function.args.kwarg:
            passed.append(f"**{function.args.kwarg.arg}")
        inner = [book, "", f"result = in_the_book({', '.join(passed)})", *self._converted()]
        imports = [f"import {m}" for m in ("math",) if any(f"{m}." in line for line in inner[1:])]
        imports += ["import numpy as np"] if any("np." in line for line in inner[1:]) else []
        indented = [f"    {line}" if line else "" for text in (*imports, *inner) for line in text.split("\n")]
        return "\n".join([*above, self._signature(function), *indented])

    def _converted(self) -> Iterator[str]:
        """The lines of a reference that bring the book's result into the course's form."""
        form = self.form
        if "result" in form.results:
            yield f"result = {units.expression(form.results['result'], 'result', back=False)}"
        if form.outputs:
            yield f"{', '.join(form.outputs)} = result"
            entries = (
                units.expression(form.results[n], n, back=False) if n in form.results else n
                for n in form.returned
            )
            yield f"result = {', '.join(entries)}"
        if form.keys:
            yield f"keys = {dict(form.keys)!r}"
            yield "result = {keys.get(key, key): value for key, value in result.items()}"
        yield "return result"


def _solves(p: Any, variant: Variant) -> bool:
    return bool(p.role == "solution" and p.name == variant.declaration.part)


def _cell(kind: str, name: str, source: str) -> Cell:
    cell: Cell = {"cell_type": kind, "id": name, "metadata": {}, "source": source}
    return cell | {"outputs": [], "execution_count": None} if kind == "code" else cell


def _def(name: str, arguments: list[str]) -> str:
    line = f"def {name}({', '.join(arguments)}):"
    return line if len(line) <= 80 else f"def {name}(\n    {', '.join(arguments)}\n):"


def _binds(source: str, name: str) -> bool:
    """Return whether a cell assigns the name to something else at its top level."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.Assign):
            names = [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            if name in names:
                return True
    return False


def renamed(source: str, names: Mapping[str, str]) -> str:
    """Source in which other names are read; arguments and variables of a function stay as they are."""
    found: list[ast.Name] = []

    def visit(node: ast.AST, hidden: frozenset[str]) -> None:
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            for default in (
                *node.args.defaults,
                *node.args.kw_defaults,
                *getattr(node, "decorator_list", ()),
            ):
                if default is not None:
                    visit(default, hidden)
            body: list[ast.AST] = [*node.body] if isinstance(node.body, list) else [node.body]
            for inner in body:
                visit(inner, hidden | _own(node))
            return
        if isinstance(node, ast.Name) and node.id in names and node.id not in hidden:
            found.extend([node] if isinstance(node.ctx, ast.Load) else [])
        for child in ast.iter_child_nodes(node):
            visit(child, hidden)

    visit(ast.parse(source), frozenset())
    lines = [line.encode() for line in source.split("\n")]  # ast counts bytes
    for node in sorted(found, key=lambda n: (n.lineno, n.col_offset), reverse=True):
        line, end = lines[node.lineno - 1], node.col_offset + len(node.id.encode())
        lines[node.lineno - 1] = line[: node.col_offset] + names[node.id].encode() + line[end:]
    return b"\n".join(lines).decode()


def _own(function: ast.FunctionDef | ast.Lambda) -> set[str]:
    """The names that a function gives to something of its own: arguments, variables, functions inside it."""
    inside = [node for node in ast.walk(function) if node is not function]
    names = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    return names | {node.name for node in inside if isinstance(node, ast.FunctionDef)}
