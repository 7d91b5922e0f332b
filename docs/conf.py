"""Settings of the rendered documentation: ``sphinx-build -W -c docs . build/site``.

Run it in the top folder.

The pages are the README, the Markdown pages that lie next to the code, the notebooks as they were
run, and an API reference made from the docstrings.
"""

import numformer

project = "numformer"
author = "the numformer developers"
copyright = "the numformer developers"                                # noqa: A001  (Sphinx's name)
release = version = numformer.__version__

extensions = [
    "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "sphinx.ext.viewcode",
    "numpydoc", "myst_nb",
]
root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "docs/*.rst", "docs/api/*.rst", "numformer/**.md",
                    "notebooks/*.ipynb", "notebooks/README.md", "figures/README.md",
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
:caption: Pages

docs/api
numformer/CONVENTIONS
numformer/ADDING_A_LAYER
numformer/ADDING_A_MODEL
numformer/commands/COMMANDS
numformer/data/world/WORLD
numformer/recipes/PRESETS
numformer/recipes/RESULTS
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
notebooks/*
```
"""


def add_contents(app, page, source):
    """The README gets the table of contents that only the rendered documentation needs."""
    if page == root_doc:
        source[0] += CONTENTS


def setup(app):
    app.connect("source-read", add_contents)
