"""The docstrings of the standard library as a corpus of English sentences by topic.

They are read from the source files, so nothing is imported or run; the topic is the package or
module. The documentation of the language (`load_corpus`) is included, under the topic "language".

**What counts as English.** A paragraph counts if it begins with a capital, ends as a sentence does,
and holds no examples, tables or grammar. It is split into sentences; one counts if it is plain
ASCII, of 20 to 300 characters, mostly letters, and no repetition of an earlier one. So parts that
share no section share no sentence.

**The text depends on the Python version**, and some systems install only a part of the library.
Under one installation it is always the same; `library_text` has a checksum, as every corpus.
"""

import ast
import re
import sys
import sysconfig
import warnings
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from numformer.data.corpora.texts import Corpus, DataError, load_corpus
from numformer.files import MIB, read_file

SECTION_CHARACTERS = 500                                              # the fewest
MOST = 16 * MIB                                                       # of a source file
EVERY = 5                                                             # of a topic's is held out
_LEFT_OUT = {"test", "tests", "encodings", "idlelib", "lib2to3", "turtledemo", "ensurepip",
             "pydoc_data"}
_PLAIN = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2026": "...",
                        "\u2013": "-", "\u2014": "-", "\u00a0": " "})
_NO_PROSE = re.compile(r"^\s*(>>>|\.\.\.|[-*+#|=~]|\w+\s+--?\s)|::|\S {3,}\S", re.MULTILINE)
_PARAGRAPH = re.compile(r"""["'(`*]?[A-Z].*[.!?:]["')`*]*""", re.DOTALL)
_SENTENCE_END = re.compile(r"""(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!cf\.)(?<!vs\.)"""
                           r"""\s+(?=["'(`*]?[A-Z])""")


class Section(NamedTuple):
    """Consecutive sentences of one topic.

    Parameters
    ----------
    topic : str
    sentences : tuple of str
    """

    topic: str
    sentences: tuple


def library_sections(held_out=None):
    """The sections of the library: about 500 characters of consecutive sentences of one file each.

    Parameters
    ----------
    held_out : bool, optional
        Only those that are held out, or only those for training; all by default. Every fifth
        section of a topic is held out, so large topics have the same share of both parts.

    Returns
    -------
    list of Section
        In the order of the files' names.

    Raises
    ------
    DataError
        If this Python has no sources or no documentation texts.

    Examples
    --------
    >>> sections = library_sections()
    >>> len(sections) == len(library_sections(True)) + len(library_sections(False))
    True
    """
    number, chosen = Counter(), []                                    # of the section in its topic
    for section in _sections(Path(sysconfig.get_paths()["stdlib"])):
        number[section.topic] += 1
        if held_out is None or (number[section.topic] % EVERY == 0) == held_out:
            chosen.append(section)
    return chosen


def library_text(held_out=None):
    """The text of `library_sections`: a sentence a line, and an empty line between sections.

    Returns
    -------
    Corpus

    Raises
    ------
    DataError
        As `library_sections`.

    Examples
    --------
    >>> corpus = library_text()
    >>> corpus.name, len(corpus.text) > 500_000, corpus.text.isascii()
    ('library', True, True)
    """
    sections = ("\n".join(section.sentences) for section in library_sections(held_out))
    return Corpus("library", "\n\n".join(sections))


@lru_cache(maxsize=1)
def _sections(root):
    seen, sections = set(), []
    for topic, paragraphs in [("language", _paragraphs(load_corpus().text)), *_files(root)]:
        sentences = []
        for paragraph in paragraphs:
            for sentence in _SENTENCE_END.split(paragraph):
                if _is_english(sentence) and sentence not in seen:
                    seen.add(sentence)
                    sentences.append(sentence)
            if sum(map(len, sentences)) >= SECTION_CHARACTERS:
                sections.append(Section(topic, tuple(sentences)))
                sentences = []
        if sentences:
            sections.append(Section(topic, tuple(sentences)))
    if not any(section.topic != "language" for section in sections):
        raise DataError(f"there are no sources of the standard library in {root}; "
                        "use a Python that was installed with them.")
    return sections


def _files(root):
    """(topic, paragraphs) of every source file, in the order of their names."""
    modules = sorted(path for name in sys.stdlib_module_names
                     for path in [root / f"{name}.py", *root.glob(f"{name}/**/*.py")])
    for path in modules:
        parts = path.relative_to(root).with_suffix("").parts
        if not path.is_file() or _LEFT_OUT & set(parts):
            continue
        try:
            with warnings.catch_warnings(action="ignore"):            # about deprecated syntax
                tree = ast.parse(read_file(path, MOST))
        except (OSError, SyntaxError, ValueError):                    # or broken on purpose
            continue
        topic = parts[0].removeprefix("_py").strip("_")
        yield topic, [paragraph for text in _docstrings(tree) for paragraph in _paragraphs(text)]


def _docstrings(node):
    """The docstrings of a module or a statement and of all that is in it, from top to bottom."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        yield ast.get_docstring(node) or ""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):    # no expressions
            yield from _docstrings(child)


def _paragraphs(text):
    """The paragraphs of a text that are English, each on one line.

    Examples
    --------
    >>> _paragraphs("A word-\\nby-word  copy\\nis made.\\n\\n  >>> f(1)\\n\\nName   Use.\\n\\nno.")
    ['A word-by-word copy is made.']
    """
    paragraphs = []
    for block in re.split(r"\n\s*\n", text.translate(_PLAIN)):
        line = re.sub(r"\s+", " ", re.sub(r"(?<=\w)-\n\s*(?=\w)", "-", block)).strip()
        if not _NO_PROSE.search(block.strip()) and _PARAGRAPH.fullmatch(line):
            paragraphs.append(line)
    return paragraphs


def _is_english(sentence):
    """Whether a sentence is plain ASCII, of 20 to 300 characters, and mostly letters.

    Examples
    --------
    >>> _is_english("The result is a list of names."), _is_english("See RFC 2822.")
    (True, False)
    >>> _is_english("X[1] = (2 + 3) * {4: 5} - 6789.")
    False
    """
    letters = sum(character.isalpha() or character == " " for character in sentence)
    return (20 <= len(sentence) <= 300 and sentence.isascii() and sentence.count(" ") >= 3
            and letters >= 0.85 * len(sentence))
