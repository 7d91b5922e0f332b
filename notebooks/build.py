"""Make the notebooks from their sources: python notebooks/build.py [NAME ...] [--out FOLDER]

A source is a Python file in the percent format, which diffs well; the notebook holds the same cells
with their outputs. The kernel runs in an empty folder, and every cell must end without an error.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import jupytext
from nbclient import NotebookClient

HERE = Path(__file__).parent
ABOUT = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
         "language_info": {"name": "python"}}
KEPT = ("minutes", "tags")                # what a source says of a cell, for slides and timing
HIDDEN = "hide-input"                     # of code that draws: folded on the pages, too
SECONDS = 600                             # after which a cell is stopped


def made(source):
    """The executed notebook of one source."""
    notebook = jupytext.read(source, fmt="py:percent")
    notebook.metadata = ABOUT
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", {
            key: cell.metadata[key] for key in KEPT if key in cell.metadata}
        if HIDDEN in cell.metadata.get("tags", ()):
            cell.metadata["jupyter"] = {"source_hidden": True}        # folded in JupyterLab
    with tempfile.TemporaryDirectory() as empty:
        NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", coalesce_streams=True,
                       resources={"metadata": {"path": empty}}, record_timing=False).execute()
    return notebook


def main():
    parser = argparse.ArgumentParser(description="Make the notebooks from their sources.")
    parser.add_argument("names", metavar="NAME", nargs="*",
                        help="such as 02 or 02_scaled_dot_product_attention (default: all)")
    parser.add_argument("--out", type=Path, default=HERE, help="(default: the folder of this file)")
    arguments = parser.parse_args()
    for source in sorted((HERE / "source").glob("*.py")):
        if not arguments.names or any(source.stem.startswith(name) for name in arguments.names):
            started = time.perf_counter()
            path = arguments.out / f"{source.stem}.ipynb"
            jupytext.write(made(source), path, fmt="ipynb")
            seconds, size = time.perf_counter() - started, path.stat().st_size
            print(f"{path.name}: {seconds:.0f} s, {size / 1000:.0f} kB", file=sys.stderr)


if __name__ == "__main__":
    main()
