"""Formulas of the lessons, from LaTeX to MathML, which a browser shows without a script

`mathml` knows the commands that lessons use. One that it does not know is an error, never a piece
of LaTeX on a page.
"""

import re
from html import escape

TOKENS = re.compile(r"\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|\s+|.", re.DOTALL)
LETTERS = dict(
    alpha="α", beta="β", gamma="γ", delta="δ", epsilon="ϵ", varepsilon="ε", zeta="ζ", eta="η",
    theta="θ", vartheta="ϑ", iota="ι", kappa="κ", lambda_="λ", mu="μ", nu="ν", xi="ξ", pi="π",
    rho="ρ", sigma="σ", tau="τ", upsilon="υ", phi="ϕ", varphi="φ", chi="χ", psi="ψ", omega="ω",
    Gamma="Γ", Delta="Δ", Theta="Θ", Lambda="Λ", Xi="Ξ", Pi="Π", Sigma="Σ", Phi="Φ", Psi="Ψ",
    Omega="Ω", ell="ℓ", infty="∞", partial="∂", nabla="∇", emptyset="∅")
OPERATORS = dict(
    cdot="⋅", times="×", odot="⊙", oplus="⊕", otimes="⊗", circ="∘", pm="±", mp="∓", div="÷",
    le="≤", leq="≤", ge="≥", geq="≥", ne="≠", neq="≠", approx="≈", equiv="≡", sim="∼", ll="≪",
    gg="≫", propto="∝", to="→", rightarrow="→", leftarrow="←", leftrightarrow="↔", mapsto="↦",
    Rightarrow="⇒", Longrightarrow="⟹", Leftrightarrow="⇔", mid="∣", subset="⊂", subseteq="⊆",
    cup="∪", cap="∩", setminus="∖", forall="∀", exists="∃", land="∧", lor="∨", neg="¬", perp="⊥",
    notin="∉", bmod="mod", colon=":", star="⋆", top="⊤")
OPERATORS["in"] = "∈"
LARGE = dict(sum="∑", prod="∏", int="∫", max="max", min="min", lim="lim", argmax="argmax",
             argmin="argmin", sup="sup", inf="inf")
FUNCTIONS = "arg", "cos", "exp", "ln", "log", "sin", "tan", "tanh", "cosh", "sinh", "det"
DOTS = dict(dots="…", ldots="…", cdots="⋯", vdots="⋮", ddots="⋱")
SPACES = {"quad": 1, "qquad": 2, ",": 0.17, ":": 0.22, ";": 0.28, " ": 0.28}         # in em
OPENING = {"(": "(", "[": "[", "\\{": "{", "\\langle": "⟨", "\\lfloor": "⌊", "\\lceil": "⌈",
           "\\lVert": "‖", "\\lvert": "|"}
CLOSING = {")": ")", "]": "]", "\\}": "}", "\\rangle": "⟩", "\\rfloor": "⌋", "\\rceil": "⌉",
           "\\rVert": "‖", "\\rvert": "|"}
BRACKETS = {**OPENING, **CLOSING, "|": "|", "\\|": "‖", ".": ""}
ACCENTS = dict(bar="¯", overline="¯", hat="^", tilde="~", dot="˙", vec="→")
SIZES = {"big": 1.2, "Big": 1.8, "bigg": 2.4, "Bigg": 3}                             # in em
ENDS = "\\\\", "\\end"                             # of a row, of a table
MATRICES = {"aligned": "", "cases": "{", "matrix": "", "pmatrix": "()", "bmatrix": "[]"}


def mathml(source, block=False):
    """The MathML of a formula.

    Parameters
    ----------
    source : str
        LaTeX, without dollar signs.
    block : bool
        Whether it has a line of its own.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If it has a command that is not known here, or braces without a partner.

    Examples
    --------
    >>> mathml("x^2")
    '<math alttext="x^2"><msup><mi>x</mi><mn>2</mn></msup></math>'
    """
    formula = Formula(source)
    found = formula.row(())
    if formula.token() is not None:
        raise ValueError(f"{formula.token()} has no partner in the formula {source!r}")
    display = ' display="block"' if block else ""
    alternative = escape(" ".join(source.split()))
    return f'<math{display} alttext="{alternative}">{found}</math>'


class Formula:
    """The tokens of a formula, read from left to right."""

    def __init__(self, source):
        self.source, self.tokens = source, TOKENS.findall(source)

    def token(self):
        """The next one that is no space, which stays; None at the end."""
        while self.tokens and self.tokens[0].isspace():
            self.tokens.pop(0)
        return self.tokens[0] if self.tokens else None

    def take(self, wanted=None):
        found = self.token()
        if found is None or wanted not in (None, found):
            raise ValueError(f"{wanted or 'something'} is missing in the formula {self.source!r}")
        return self.tokens.pop(0)

    def row(self, ends):
        """All up to one of `ends`, or a closing brace, or the end."""
        return "".join(self.parts(ends))

    def parts(self, ends):
        """The same, as a list."""
        found = []
        while self.token() not in (None, "}", *ends):
            if self.token() == "\\textstyle":
                self.take()
                found.append(f'<mstyle displaystyle="false">{self.row(ends)}</mstyle>')
            elif self.token() in ("+", "-", "\\pm") and _expects_more(found):
                found.append(_operator(_sign(self.take()), ' form="prefix"'))
            else:
                named = self.token()[1:] in FUNCTIONS and self.token().startswith("\\")
                if named and found and not found[-1].startswith(("<mo>", "<mo ", "<mspace")):
                    found.append(_space(0.17))
                found.append(self.scripted())
                if named and self.token() not in (None, "}", "&", "(", "\\left", "\\big", "\\Big",
                                                  "\\\\", *CLOSING, *ends):
                    found.append(_space(0.17))
        return found

    def scripted(self):
        """One thing with its indices, exponents and primes."""
        large = (self.token() or "")[1:] in (*LARGE, "underbrace") or (
            self.tokens[:2] == ["\\operatorname", "*"])
        base, low, high = self.atom(), [], []
        while self.token() in ("_", "^", "'"):
            kind = self.take()
            if kind == "_":
                low.append(self.argument())
            else:
                high.append(_operator("′") if kind == "'" else self.argument())
        under, over = ("munder", "mover") if large else ("msub", "msup")
        if low and high:
            both = under + ("over" if large else "sup")
            return f"<{both}>{base}{_one(*low)}{_one(*high)}</{both}>"
        if low or high:
            name = under if low else over
            return f"<{name}>{base}{_one(*(low or high))}</{name}>"
        return base

    def argument(self):
        """What a command, an index or an exponent takes: a group, or one token."""
        if self.token() == "{":
            self.take()
            found = self.parts(())
            self.take("}")
            return _one(*found)
        first = self.token() or ""
        if first[:1].isdigit() and len(first) > 1:                    # \frac12
            self.tokens[:1] = [first[0], first[1:]]
        return self.atom()

    def words(self):
        """The text in the braces of \\text, with its spaces."""
        self.take("{")
        found = []
        while self.tokens and self.tokens[0] != "}":
            word = self.tokens.pop(0).removeprefix("\\")
            found.append(" " if word in SPACES else word)
        self.take("}")
        return re.sub(r"\s+", " ", "".join(found))

    def atom(self):
        word = self.take()
        if word == "{":
            self.tokens.insert(0, word)
            return self.argument()
        if word in BRACKETS and word != ".":
            beside = ' lspace="0" rspace="0"' if BRACKETS[word] in "|‖" else ""
            return _operator(BRACKETS[word], f' stretchy="false"{beside}')
        if word.startswith("\\"):
            return self.command(word[1:])
        if word[0].isdigit():
            return f"<mn>{word}</mn>"
        if word.isalpha():
            return f"<mi>{word}</mi>"
        if word in "}&^_$#%~":
            raise ValueError(f"{word} has no place in the formula {self.source!r}")
        return _operator(_sign(word))

    def command(self, name):
        if name == "!":                                               # less space: none to take
            return ""
        if name in SPACES:
            return _space(SPACES[name])
        if name in ("_", "%", "&", "#", "$"):
            return _operator(name)
        letter = LETTERS.get("lambda_" if name == "lambda" else name)
        if letter:
            upper = ' mathvariant="normal"' if letter.isupper() else ""
            return f"<mi{upper}>{letter}</mi>"
        if name in LARGE:
            return _operator(LARGE[name], ' movablelimits="true"' if LARGE[name].isalpha() else "")
        if name in OPERATORS:
            return _operator(OPERATORS[name])
        if name in DOTS:
            return f"<mi>{DOTS[name]}</mi>"
        if name in FUNCTIONS:
            return f"<mi>{name}</mi>"
        if name in ("mathrm", "operatorname", "mathbf", "mathit"):
            if self.token() == "*":                                   # its index is below it
                self.take()
            words = escape(self.words().strip())
            return f'<mi mathvariant="normal">{words}</mi>' if len(words) == 1 else (
                f"<mi>{words}</mi>")
        if name == "text":
            return f"<mtext>{escape(self.words()).replace(' ', chr(160))}</mtext>"
        if name in ("frac", "tfrac", "dfrac"):
            found = f"<mfrac>{self.argument()}{self.argument()}</mfrac>"
            return f'<mstyle displaystyle="false">{found}</mstyle>' if name == "tfrac" else found
        if name == "sqrt":
            if self.token() != "[":
                return f"<msqrt>{self.argument()}</msqrt>"
            self.take()
            degree = self.parts(("]",))
            self.take("]")
            return f"<mroot>{self.argument()}{_one(*degree)}</mroot>"
        if name in ACCENTS:
            wide = "true" if name == "overline" else "false"
            accent = _operator(ACCENTS[name], f' stretchy="{wide}"')
            return f'<mover accent="true">{self.argument()}{accent}</mover>'
        if name == "underbrace":
            brace = _operator("⏟", ' stretchy="true"')
            return f"<munder>{self.argument()}{brace}</munder>"
        if name in SIZES:
            size = f'{SIZES[name]}em" maxsize="{SIZES[name]}em'
            bracket = self.bracket()
            form = "prefix" if bracket in OPENING.values() else "postfix"
            return _operator(bracket, f' form="{form}" stretchy="true" minsize="{size}"')
        if name == "left":
            first = self.bracket()
            inner = self.row(("\\right",))
            self.take("\\right")
            return f"<mrow>{_fence(first)}{inner}{_fence(self.bracket(), 'postfix')}</mrow>"
        if name == "begin":
            return self.table()
        raise ValueError(f"\\{name} in the formula {self.source!r} is not known: "
                         "see notebooks/web/formulas.py")

    def bracket(self):
        word = self.take()
        if word not in BRACKETS:
            raise ValueError(f"{word} is no bracket in the formula {self.source!r}")
        return BRACKETS[word]

    def table(self):
        """An environment: rows of cells."""
        name = self.words()
        if name not in MATRICES:
            raise ValueError(f"the environment {name} in the formula {self.source!r} is not known")
        rows = [[]]
        while True:
            inner = self.row(("&", *ENDS))
            rows[-1].append(f"<mtd>{inner}</mtd>")
            end = self.take()
            if end == "\\end":
                break
            if end == "\\\\":
                rows.append([])
        self.words()
        style = ' displaystyle="true"' if name == "aligned" else ""
        inner = "".join(f"<mtr>{''.join(row)}</mtr>" for row in rows)
        found = f'<mtable class="{name}"{style}>{inner}</mtable>'
        first, last = MATRICES[name][:1], MATRICES[name][1:]
        return f"<mrow>{_fence(first)}{found}{_fence(last, 'postfix')}</mrow>" if first else found


def _expects_more(found):
    """Whether a sign here belongs to what follows: at the beginning, or after an operator."""
    if not found:
        return True
    last = found[-1]
    return last.startswith(("<mo>", "<mo ", "<mspace")) and not (
        last.endswith(tuple(f">{sign}</mo>" for sign in (*CLOSING.values(), "|", "!", "⊤"))))


def _sign(character):
    return {"-": "−", "*": "∗", "\\pm": "±"}.get(character, character)


def _operator(text, attributes=""):
    return f"<mo{attributes}>{escape(text)}</mo>"


def _fence(text, form="prefix"):
    return _operator(text, f' form="{form}" stretchy="true"') if text else ""


def _space(width):
    return f'<mspace width="{width}em"/>'


def _one(*parts):
    """Parts as one element."""
    return parts[0] if len(parts) == 1 else f"<mrow>{''.join(parts)}</mrow>"
