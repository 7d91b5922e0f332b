"""Code, output, formulas, pictures and text cut to the size of a slide.

A slide is 1200 x 675 pixels (of 1280 x 720, reveal.js leaves a margin of 4%). Heights are estimates
from lengths: a test measures in a browser that nothing is cut off.
"""

import io
import re
import textwrap
import tokenize

ROOM = 640                                # pixels for a slide's heading and content
WIDTH = 1150
FONT, LINE = 28, 38                       # of text
COLUMNS = 84                              # characters of text in a line
CODE_FONTS = range(28, 15, -1)            # largest first
CHARACTER = 0.605                         # width of a character of code over its font size
LINES = 12                                # of code on a slide; a few more rather than a bad cut
SHAPE, TALL, GAP = 2.1, 1.3, 40           # of pictures: width over height, and the reverse
FORMULA = 60                              # widest formula, in its letters


def height_of_text(text):
    """Height in pixels of a paragraph, statement, list or table of Markdown."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"[*`$]|^> ?", "", text, flags=re.M))
    if plain.startswith("|"):
        return sum(56 + LINE * (len(row) // (COLUMNS - 14)) for row in plain.splitlines()[1:])
    items = re.split(r"\n(?=[-*] |\d+\. )", plain)
    lines = sum(-(-len(" ".join(item.split())) // (COLUMNS - 4)) for item in items)
    return LINE * lines + 20 + 16 * text.startswith(">")


def parts_of_list(text, room=ROOM - 110):
    """The items of a long list in parts that fit."""
    parts = [[]]
    for item in re.split(r"\n(?=[-*] |\d+\. )", text):
        if parts[-1] and height_of_text("\n".join([*parts[-1], item])) > room:
            parts.append([])
        parts[-1].append(item)
    return ["\n".join(part) for part in parts]


def comments(source):
    """{line number from 0: column} of the comments that follow code; none if it is not Python."""
    found = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            row, column = token.start
            if token.type == tokenize.COMMENT and token.line[:column].strip():
                found[row - 1] = column
    except (tokenize.TokenError, SyntaxError):
        return {}
    return found


def code(source, columns=74):
    """Source whose comments are near the code, and above it where a line is longer than that."""
    source = re.sub(r"\n\n+", "\n\n", source.strip("\n"))
    found, lines = comments(source), []
    for number, line in enumerate(source.split("\n")):
        if number in found and len(line) > columns:
            statement, comment = line[:found[number]].rstrip(), line[found[number]:]
            if len(statement) + 2 + len(comment) <= columns:
                line = f"{statement}{' ' * (columns - len(statement) - len(comment))}{comment}"
            else:
                indent = " " * (len(statement) - len(statement.lstrip()))
                if not re.match(r"\s*(el|except|finally|[)\]}])", statement):
                    lines.append(indent + comment)
                    line = statement
                else:
                    line = f"{statement}  {comment}"
        lines.append(line)
    return "\n".join(lines)


def wrapped(output, columns=104):
    """Output whose long lines are broken, with an indent."""
    return "\n".join(
        "\n".join(textwrap.wrap(line, columns, subsequent_indent="    ",
                                replace_whitespace=False)) if len(line) > columns else line
        for line in output.rstrip().expandtabs().split("\n"))


def cuts(lines):
    """How bad it is to cut before each line: at an empty line or a new statement it is best."""
    depth, cost = 0, []
    for before, line in zip(["", *lines], lines):
        indent = len(line) - len(line.lstrip())
        inside = depth > 0 or line.lstrip().startswith((")", "]", "}", "else", "elif"))
        header = before.rstrip().endswith(":") or before.lstrip().startswith(("@", "#"))
        cost.append(0 if not before.strip() else 40 if inside or header else 1 + indent / 2)
        bare = re.sub(r"#.*|\"[^\"]*\"|'[^']*'", "", line)
        depth += sum(bare.count(sign) for sign in "([{") - sum(bare.count(sign) for sign in ")]}")
    return cost


def parts_of_code(source, most=LINES + 3):
    """Code in parts of about equal length that end where a thought does."""
    lines = source.split("\n")
    if len(lines) <= most:
        return [source]
    cost, count = cuts(lines), -(-len(lines) // (LINES + 1))
    best = {0: (0.0, ())}                 # {first line of what is left: (cost, where it was cut)}
    for end in range(1, len(lines) + 1):
        choices = [(best[start][0] + (cost[end] if end < len(lines) else 0)
                    + (end - start - len(lines) / count) ** 2 / 4, (*best[start][1], start))
                   for start in range(max(0, end - most), end) if start in best]
        best[end] = min(choices)
    starts = best[len(lines)][1]
    return ["\n".join(lines[start:end]).strip("\n")
            for start, end in zip(starts, [*starts[1:], len(lines)])]


def font_of_code(*texts, room=ROOM - 80):
    """The largest font in which all lines fit beside and below each other, and their height."""
    lines = [line for text in texts for line in text.split("\n")]
    for font in CODE_FONTS:
        high = sum(height_of_code(text, font) for text in texts)
        if max(map(len, lines)) * font * CHARACTER <= WIDTH - 20 and high <= room:
            break
    return font, high


def height_of_code(text, font):
    return (text.count("\n") + 1) * font * 1.3 + 26


def split_at(tex, mark):
    """The parts of a formula between marks that are in no braces and no environment."""
    parts, depth = [""], 0
    for token in re.findall(r"\\begin\{\w+\}|\\end\{\w+\}|\\left\b|\\right\b|\\\\|\\[a-zA-Z]+|"
                            r"\\.|[^\\]", tex, re.DOTALL):
        if token.startswith(r"\begin{") or token in (r"\left", "{"):
            depth += 1
        elif token.startswith(r"\end{") or token in (r"\right", "}"):
            depth -= 1
        if token == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def letters(tex):
    """About how many letters wide a formula is."""
    tex = re.sub(r"\\[dt]?frac\s*(\{[^{}]*\}|\w)\s*(\{[^{}]*\}|\w)",
                 lambda found: max(found[1], found[2], key=len), tex)
    tex = re.sub(r"\\text\{([^{}]*)\}", lambda found: found[1].replace(" ", "x"), tex)
    tex = re.sub(r"\\(begin|end)\{\w+\}|\\(left|right|bar|hat|tilde|mathrm|mathbf|big|Big|overline|"
                 r"operatorname|displaystyle|phantom)\b!?|\\[,!]|[{}&]", "", tex)
    tex = tex.replace(r"\qquad", "xxxx").replace(r"\quad", "xx").replace(r"\;", "x")
    tex = re.sub(r"\\(cdot|odot|times|to|le|ge|approx|in|sum|prod|Rightarrow)\b", "xx", tex)
    tex = re.sub(r"\\[a-zA-Z]+|\\.", "x", tex)
    wide, small = len(re.findall("[A-Z=+<>-]", tex)), len(re.findall(r"[_^]\w", tex))
    return len(re.sub(r"[\s_^]", "", tex)) + 0.6 * wide - 0.3 * small


def rows(tex):
    """The lines of a formula: rows of what is aligned (equal signs stay below each other)."""
    tex = tex.strip().removeprefix("$$").removesuffix("$$").strip()
    aligned = re.fullmatch(r"\\begin\{aligned\}(.*)\\end\{aligned\}([.,]?)", tex, re.DOTALL)
    if not aligned:
        yield from broken(tex)
        return
    left = ""
    for row in split_at(aligned[1], r"\\"):
        row = re.sub(r"^\[[^]]*\]", "", row.strip())
        cells = [cell.strip() for cell in split_at(row, "&")]
        if len(cells) > 1 and not cells[0]:
            cells[0] = rf"\phantom{{{left}}}"
        elif len(cells) > 1:
            left = cells[0]
        if any(cells):
            yield from broken(" {} ".join(cells[:2]) + "".join(
                (r" \qquad " if place % 2 == 0 else " {} ") + cell
                for place, cell in enumerate(cells[2:])))


def broken(tex):
    """Lines of a formula that is too wide, broken at its widest spaces, or before equal signs."""
    for mark, indent in ((r"\qquad", ""), (r"\quad", ""), ("=", r"\qquad = ")):
        parts = split_at(tex, mark)
        if letters(tex) > FORMULA and len(parts) > 1:
            line = parts[0]
            for part in parts[1:]:
                if letters(line + mark + part) > FORMULA:
                    yield from broken(line.strip())
                    line = indent + part.strip()
                else:
                    line += mark + part
            yield line.strip()
            return
    yield tex


def height_of_formula(tex):
    """Height in pixels of one line of a formula."""
    matrix = max([body.count(r"\\") for body in re.findall(
        r"\\begin\{(?:\w*matrix|cases|aligned)\}(.*?)\\end", tex, re.DOTALL)], default=0)
    tall = bool(re.search(r"frac|sum|prod|int\b|binom|sqrt", tex))
    return 58 + 42 * tall + 48 * matrix + 45 * int(letters(tex) > FORMULA * 1.2)


def folded(png):
    """A picture (PNG, bytes) that is taller than wide, in columns side by side.

    It is cut where the fewest lines cross; what leaves a column below goes on at the top of the
    next, at the same distance from the left.
    """
    import numpy as np
    from PIL import Image

    picture = Image.open(io.BytesIO(png)).convert("RGB")
    wide, high = picture.size
    columns = round((SHAPE * high / wide) ** 0.5)
    if high < TALL * wide or columns < 2:
        return png
    ink = (np.asarray(picture.convert("L")) < 200).sum(axis=1)
    edges = [0]
    for column in range(1, columns):
        near = np.arange(int(high * (column - 0.3) / columns), int(high * (column + 0.3) / columns))
        far = abs(near - high * column / columns)
        edges.append(int(near[np.lexsort((far, ink[near]))[0]]))
    edges.append(high)
    tallest = max(end - start for start, end in zip(edges, edges[1:]))
    made = Image.new("RGB", (columns * wide + (columns - 1) * GAP, tallest), "white")
    for column, (start, end) in enumerate(zip(edges, edges[1:])):
        left = column * (wide + GAP)
        made.paste(picture.crop((0, start, wide, end)), (left, 0))
        if column:
            made.paste("lightgray", (left - GAP // 2, 0, left - GAP // 2 + 2, tallest))
    out = io.BytesIO()
    made.save(out, "PNG")
    return out.getvalue()
