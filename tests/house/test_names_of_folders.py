"""Names of folders and pages of the tests, which are imported without a package around them."""

import re
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent.parent
WITNESS = re.compile(r"importorskip\(\"(\w+)")


def test_no_folder_has_the_name_of_an_optional_library():
    pages = [page.read_text(encoding="utf-8") for page in TESTS.rglob("*.py")]
    libraries = {name for page in pages for name in WITNESS.findall(page)}
    assert {"torch", "tokenizers", "transformers"} <= libraries
    folders = {path.name for path in TESTS.rglob("*") if path.is_dir()}
    assert not libraries & folders


def test_no_two_pages_have_one_name():
    """They are imported by it, so pytest collects one of them alone; packages are apart."""
    packages = {path.parent for path in TESTS.rglob("__init__.py")}
    names = Counter(path.name for path in TESTS.rglob("*.py")
                    if path.name != "conftest.py" and path.parent not in packages)
    assert [name for name, count in names.items() if count > 1] == []


def test_no_page_has_the_name_of_a_folder_beside_the_pages():
    """A library that asks whether `kernels` can be imported finds the folder, and keeps it."""
    folders = {path.name for path in TESTS.iterdir() if path.is_dir()}
    assert [page for page in TESTS.rglob("*.py") if page.stem in folders] == []


def test_pages_of_tests_can_be_collected_without_the_second_witnesses():
    """pytest imports every page, for its doctests, also where PyTorch is not installed."""
    names = "torch|transformers|tokenizers|mpi4py|selenium|websocket|jax"
    wanted = re.compile(rf"^(?:import|from) (?:{names})\b", re.MULTILINE)
    found = set()
    for page in TESTS.rglob("*.py"):
        before, *after = wanted.split(page.read_text(encoding="utf-8"), maxsplit=1)
        if after and "pytest.importorskip(" not in before:
            found.add(str(page.relative_to(TESTS)))
    ignored = {f"teaching/samples/{name}.py" for name in (
        "homework", "papers", "ports", "repositories")}
    assert found == ignored, "ask with pytest.importorskip, or ignore the page in a conftest.py"
