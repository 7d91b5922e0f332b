"""Python for the site: every file that a page loads is there, and has the SHA-256 that it says."""

import base64
import hashlib
import json
import zipfile
from pathlib import Path
from pydoc_data import topics

import pytest

pytest.importorskip("nbconvert")

from web import folder, packages                                      # noqa: E402

LACKING = packages.pyodide_files.lacking()
pytestmark = pytest.mark.skipif(bool(LACKING), reason=LACKING)
ONE = Path(__file__).parents[2] / "notebooks" / "02_scaled_dot_product_attention.ipynb"


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Builds the site of a lesson, with a small file for our wheel; (folder, settings)."""
    def wheel(place):
        path = place / "numformer-1-py3-none-any.whl"
        path.write_bytes(b"numformer")
        return path

    monkeypatch.setattr(packages, "numformer_wheel", wheel)

    def build(*host):
        folder.build(tmp_path / "site", [ONE], python=packages.Python(*host))
        settings, = (tmp_path / "site").glob("scripts-*/settings.json")
        return tmp_path / "site", json.loads(settings.read_text("utf-8"))

    return build


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_file_is_there_and_has_its_hash(built):
    site, settings = built()
    for name, wanted, size in settings["core"]:
        path = site / settings["pyodide"] / name
        assert base64.b64decode(wanted).hex() == digest(path) and size == path.stat().st_size
    for address, wanted, size in settings["start"]:
        assert base64.b64decode(wanted).hex() == digest(site / address)
        assert size == (site / address).stat().st_size
    for needed in settings["packages"].values():
        for address, wanted in needed:
            assert wanted == digest(site / address)
    assert {"matplotlib", "PIL", "scipy", "tqdm", "threadpoolctl", "pydoc_data"} <= (
        settings["packages"].keys())
    first, *others = [address for address, _ in settings["packages"]["matplotlib"]]
    assert "matplotlib" in first and any("pillow" in each for each in others)
    assert not any("numpy" in each for each in others)        # it is there from the start


@pytest.mark.slow
def test_what_is_kept_is_all_but_scipy(built):
    site, _ = built()
    source = (site / "offline.js").read_text("utf-8")
    assert source.count("const SITE = {") == 1
    listed = json.loads(source.split("const SITE = ")[1].split(";\n")[0])
    both = listed["pages"] + listed["rest"]
    assert len(both) == len(set(both))
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    left, = files - {*both, "offline.js"}
    assert "scipy" in left and {*both} <= files
    assert {"index.html", f"{ONE.stem}.html"} <= {*listed["pages"]}
    assert sum((site / name).stat().st_size for name in listed["pages"]) < 3_000_000


def test_pyodide_may_have_another_host(built):
    site, settings = built("https://example.org/pyodide/")
    assert not (site / "pyodide").exists() and settings["pyodide"] == "https://example.org/pyodide/"
    numpy, ours = [address for address, *_ in settings["start"]]
    assert numpy.startswith("https://example.org/pyodide/numpy-") and (site / ours).is_file()
    assert packages.Python("files/").own and not any(
        packages.Python(host).own for host in ("../pyodide/", "/pyodide/", "//host/", "a/../b/"))
    text, = site.glob("0*.html")
    assert "example.org" not in text.read_text("utf-8")


@pytest.mark.slow
def test_scripts_have_another_name_when_they_change(built, monkeypatch):
    site, _ = built()
    before, = site.glob("scripts-*")
    site, _ = built()
    again, = site.glob("scripts-*")
    monkeypatch.setattr(packages, "default_text", lambda place: _written(place / "text.zip"))
    site, _ = built()
    after, = site.glob("scripts-*")
    assert before.name == again.name != after.name
    assert f'src="{after.name}/page.js"' in (site / f"{ONE.stem}.html").read_text("utf-8")


def _written(path):
    path.write_bytes(b"another text")
    return path


def test_the_default_text_is_that_of_this_python(tmp_path):
    with zipfile.ZipFile(packages.default_text(tmp_path)) as archive:
        names = {}
        exec(archive.read("pydoc_data/topics.py"), names)
    assert names["topics"] == topics.topics


def test_a_wrong_address_or_a_changed_file_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="ends with a slash: https://example.org/"):
        packages.Python("https://example.org")
    monkeypatch.setitem(packages.pyodide_files.CORE, "pyodide.mjs", "0" * 64)
    with pytest.raises(ValueError, match="has other files than Pyodide .*: pyodide.mjs"):
        packages.Python()
