"""Build the course as a web site in which its cells run: python notebooks/site.py [--out FOLDER]

A folder of files for any web server (notebooks/SERVER.md). The lessons come from the executed
notebooks; text, formulas, code and pictures can be read before any script has run.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from web import folder, packages

HERE = Path(__file__).parent
OUT = HERE.parent / "build" / "course"
EXTRA = (HERE / "SERVER.md", "For your server"),


def main():
    parser = argparse.ArgumentParser(description="Build the course as a web site.")
    parser.add_argument("--out", type=Path, default=OUT, help="(default: build/course)")
    parser.add_argument("--pyodide", metavar="ADDRESS", default="pyodide/",
                        help="where the files of Pyodide are, such as https://host/pyodide/ "
                        "(default: pyodide/, a copy of them next to the pages)")
    parser.add_argument("--text-only", action="store_true", help="pages to read, without Python")
    arguments = parser.parse_args()
    try:
        python = None if arguments.text_only else packages.Python(arguments.pyodide)
        folder.build(arguments.out, sorted(HERE.glob("[0-9]*.ipynb")), EXTRA, python)
    except (ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"site.py: {error}")
    print(f"{arguments.out}: {folder.size(arguments.out) / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
