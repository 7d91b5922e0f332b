"""Settings of the rendered documentation: ``sphinx-build -W -c docs . build/site``.

Run it in the top folder.

The pages are the README, the Markdown pages next to the code, the notebooks as they were run with
a deck of slides for each, the map of the lecture notes made from its table, and an API reference
made from the docstrings.
"""

import sys
from pathlib import Path

import numformer

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
sys.path[:0] = [str(NOTEBOOKS), str(Path(__file__).parent)]

import deck_pages                                                     # noqa: E402
import slides                                                         # noqa: E402
from numformer.interop import known_families                          # noqa: E402

project = "numformer"
author = "the numformer developers"
copyright = "the numformer developers"                                # noqa: A001  (Sphinx's name)
release = version = numformer.__version__

extensions = [
    "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "sphinx.ext.viewcode",
    "numpydoc", "myst_nb",
]
root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "docs/*.rst", "docs/api/*.rst",
                    "docs/decks/*.md", "docs/FAMILIES.md", "numformer/**.md",
                    "notebooks/*.ipynb", "notebooks/*.md", "figures/README.md",
                    "tests/mutants.md"]
templates_path = ["docs/templates"]                                  # from the top folder
html_theme = "furo"
html_title = "numformer"
html_extra_path = ["index.html"]                                      # the way from / to the README

# Docstrings: numpydoc's sections; `name` in single backticks is a link where the name is known.
default_role = "py:obj"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}

# Pages and notebooks: Markdown with mathematics, shown as they were run.
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"

CONTENTS = """

```{toctree}
:hidden:
:glob:
:caption: The lecture notes

docs/decks/README
docs/decks/deck_*
```

```{toctree}
:hidden:
:glob:
:caption: Pages

docs/api
docs/FAMILIES
numformer/CONVENTIONS
numformer/ADDING_*
numformer/*/ADDING_*
numformer/commands/COMMANDS
numformer/data/world/WORLD
numformer/recipes/PRESETS
numformer/recipes/RESULTS
numformer/training/parallel/PARALLEL
numformer/teaching/HOW_RIGHT
numformer/testing/TESTING
numformer/benchmarks/RESULTS
numformer/functional/PRECISION
tests/mutants
figures/README
CHANGELOG
```

```{toctree}
:hidden:
:glob:
:caption: The course

notebooks/README
notebooks/TEACHING
notebooks/EXAM
notebooks/HANDOUT
notebooks/SERVER
notebooks/[0-9]*
```
"""


def add_contents(app, page, source):
    """What only the rendered documentation has: a table of contents, links to the slides."""
    if page == root_doc:
        source[0] += CONTENTS
    if page == "notebooks/README":
        links = " ".join(f'<a href="../slides/{path.stem}.slides.html">{path.stem[:2]}</a>'
                         for path in sorted(NOTEBOOKS.glob("*.ipynb")))
        source[0] += f"\n## Slides\n\nOne deck a lesson; S shows the speaker's notes: {links}\n"


def nearby_contents(app, page, template, context, tree):
    """The sidebar of a page opens its branch alone: all 640 pages in each take most of the time."""
    if "toctree" in context:
        contents = context["toctree"]
        context["toctree"] = lambda **options: contents(**{**options, "collapse": True})


def write_slides(app, exception):
    """The decks of all lessons, in the folder `slides` of the site."""
    if exception is None and app.builder.name == "html":
        folder = Path(app.outdir) / "slides"
        folder.mkdir(exist_ok=True)
        for path in sorted(NOTEBOOKS.glob("*.ipynb")):
            out = folder / f"{path.stem}.slides.html"
            out.write_text(slides.page(path), encoding="utf-8")


def write_pages(app):
    """What is made from tables of the code: the map of the lecture notes, published families."""
    docs = Path(app.srcdir) / "docs"
    deck_pages.write_pages(docs / "decks")
    deck_pages.write_page(docs / "FAMILIES.md", known_families.page())


def setup(app):
    app.connect("builder-inited", write_pages)
    app.connect("source-read", add_contents)
    app.connect("html-page-context", nearby_contents, priority=400)       # before the theme's
    app.connect("build-finished", write_slides)
