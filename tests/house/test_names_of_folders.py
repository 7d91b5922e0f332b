"""No folder of the tests has the name of a library: without __init__.py it can be imported too."""

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
WITNESS = re.compile(r"importorskip\(\"(\w+)")


def test_no_folder_has_the_name_of_an_optional_library():
    pages = [page.read_text(encoding="utf-8") for page in TESTS.rglob("*.py")]
    libraries = {name for page in pages for name in WITNESS.findall(page)}
    assert {"torch", "tokenizers", "transformers"} <= libraries
    folders = {path.name for path in TESTS.rglob("*") if path.is_dir()}
    assert not libraries & folders
