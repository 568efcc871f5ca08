r"""Each symbol of the cheatsheet's formulas is in the notation ledger.

A formula's symbols are its letters with what is named below or above them: `A_t` of `\hat A_{t+1}`, and
`\pi_"ref"`, `y_t` and `x` of `\pi_{\text{ref}}(y_t \mid x)`.
"""

import re
import tomllib
from pathlib import Path

import site_cheatsheet
import site_notation

ROOT = Path(__file__).parents[2]
GREEK = (
    "alpha|beta|gamma|delta|epsilon|varepsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|upsilon"
    "|phi|varphi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Phi|Psi|Omega|ell"
)
LETTER = rf'(?:\\tilde )?(?:\\(?:{GREEK})(?![A-Za-z])|(?<![\\A-Za-z"])[A-Za-z]|"KL")'
MARK = r"([_^])(\{[^{}]*\}|\"\w+\"|\\[A-Za-z]+|.)"
SYMBOL = re.compile(rf"({LETTER})'*((?:{MARK})*)")
#: Letters that count steps, samples and texts: below a symbol they say which of many.
STEP = re.compile(r"[bijln\d+-]*[tk][bijln\d+-]*")
SAMPLE = re.compile(r"[bij1G]")
COUNTING = set("bijklntNT")
#: The number e, any function, any vector, any two distributions: the formula or its sentence says so.
NO_SYMBOL = COUNTING | set("efvqp")


def plain(tex):
    """TeX without what changes its look only, and with words in quotes."""
    tex = re.sub(
        r"\\(?:begin|end)\{\w+\}|\\(?:[bB]igg?[lr]?|left|right|hat|bar|overline)(?![A-Za-z])", " ", tex
    )
    tex = re.sub(r"\\(?:text|texttt|mathrm|operatorname|mathbb|mathcal)\s*\{([^{}]*)\}", word, tex)
    return re.sub(r"\\[,;:! \\]|&", " ", tex)


def word(found):
    """What is set upright, as one name."""
    return '"' + re.sub(r"\W|_", "", found[1]) + '"'


def symbols_of(tex):
    """The symbols of a formula, from the left."""
    return list(symbols_in(plain(tex)))


def symbols_in(text):
    """The symbols of plain TeX."""
    for found in SYMBOL.finditer(text):
        names, others = [], []
        for sign, said in re.findall(MARK, found[2]):
            parts = [part.strip() for part in said.strip("{}").split(",")]
            if sign == "_":
                names += [f"_{kept}" for kept in map(below, parts) if kept]
            elif re.fullmatch(r'\*|"\w+"', parts[0]):
                names.append(f"^{parts[0]}")
            else:
                others.append(said)
        yield re.sub(r"\s", "", found[1]) + "".join(sorted(names, reverse=True))
        for power in others:
            yield from symbols_in(power)


def below(part):
    """What is named below a symbol: `t` for any step, nothing for any sample."""
    if part.startswith("<") or SAMPLE.fullmatch(part):
        return ""
    return "t" if STEP.fullmatch(part) else part


def ledger():
    """What each row of the notation page defines: the first symbol of what it shows."""
    tables = site_notation.rows_of((ROOT / site_notation.DATA).read_text(encoding="utf-8"))
    return {symbols_of(symbol)[0] for rows in tables.values() for row in rows for symbol in row["symbols"]}


def is_in(symbol, defined):
    """Whether a symbol is defined: as it is, or for a step where it stands without one."""
    return bool({symbol, f"{symbol}_t", symbol.removesuffix("_t")} & defined) or symbol in NO_SYMBOL


def test_formulas_are_read_symbol_by_symbol():
    assert symbols_of(r"\hat A_{t+1} \le \tilde g^\top F") == ["A_t", r"\tildeg", "F"]
    assert symbols_of(r"\pi_{\text{ref}}(y_{b,<t} \mid x_b)") == [r'\pi_"ref"', "y", "x"]
    assert symbols_of(r"\sum_{k \ge t} \gamma^{k-t} r_k") == ["k", "t", r"\gamma", "k", "t", "r_t"]
    assert symbols_of(r"L_{\text{value}}^{\text{CLIP}} - y_{w,i}") == ['L_"value"^"CLIP"', "y_w"]
    assert symbols_of(r"\log \pi^*(y) = \mathbb{E}_{a \sim \pi_\theta} V_\phi(s_t)") == [
        r"\pi^*",
        "y",
        "a",
        r"\pi_\theta",
        r"V_\phi",
        "s_t",
    ]
    assert not is_in("R_t", {"A_t", "Q"})


def test_each_symbol_of_the_cheatsheet_is_in_the_ledger():
    defined = ledger()
    known = {}
    for path in sorted((ROOT / "chapters").glob("*.md")):
        known |= site_cheatsheet.equations_in(path.read_text(encoding="utf-8"))
    data = tomllib.loads((ROOT / site_cheatsheet.DATA).read_text(encoding="utf-8"))
    entries = [entry for group in data["equations"].values() for entry in group["entries"]]
    formulas = {label: known[label] for entry in entries for label in entry["labels"]}
    used = {symbol for tex in formulas.values() for symbol in symbols_of(tex)}
    assert len(used) > 60
    assert {"R_t", "d_t", r"V_\phi", "Z", r"d_\pi"} <= used & defined
    missing = {
        symbol: label
        for label, tex in formulas.items()
        for symbol in symbols_of(tex)
        if not is_in(symbol, defined)
    }
    assert missing == {}
