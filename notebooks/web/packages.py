"""Python for the site: Pyodide, the wheels that come with it, and numformer's own from this tree

Every file has a SHA-256 that the page verifies. Pyodide's files are copied next to the pages, or
are loaded from another host that has the same release.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from pydoc_data import topics

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "commands" / "environments"))

import pyodide_files                                                  # noqa: E402

SOURCES = "numformer", "docs/DESCRIPTION.md", "pyproject.toml", "setup.cfg", "LICENSE"
AT_START = "numpy",                                   # of Pyodide's packages; others when imported
LARGE = "scipy",                                      # is kept offline where it was used only


class Python:
    """What a page loads to run cells.

    Parameters
    ----------
    host : str
        Address of a folder with Pyodide's files and wheels; it ends with a slash. A name alone is a
        folder of the site, into which they are copied; any other must have them.

    Raises
    ------
    ValueError
        If Pyodide is not here, with the command that brings it; or if the address has no slash.
    """

    def __init__(self, host="pyodide/"):
        if not host.endswith("/"):
            raise ValueError(f"the address of Pyodide ends with a slash: {host}/")
        if pyodide_files.lacking():
            raise ValueError(pyodide_files.lacking())
        self.host, self.own = host, re.fullmatch(r"[\w-]+/", host) is not None
        listed = json.loads((pyodide_files.PYODIDE / "pyodide-lock.json").read_text("utf-8"))
        self.listed = listed["packages"]
        self.wheels = pyodide_files.wheels()

    def write(self, out, scripts):
        """Write its files into the site; the settings of the pages, and {address: what it is for}.

        Parameters
        ----------
        out, scripts : Path
            The folder of the site, and that of its scripts.

        Returns
        -------
        dict
        """
        if self.own:
            self._copy(out / self.host)
        wheel = numformer_wheel(scripts)
        text = default_text(scripts)
        ours = {path.name: path for path in (wheel, text)}
        for name in pyodide_files.TQDM:
            ours[name] = Path(shutil.copy(pyodide_files.PACKAGES / name, scripts))
        address = {name: path.relative_to(out).as_posix() for name, path in ours.items()}
        packages = {each: [self._of_list(name) for name in self._needs(package)]
                    for package in self._chosen() if package not in AT_START
                    for each in self.listed[package]["imports"]}
        packages["tqdm"] = [[address[name], _hex(ours[name])] for name in pyodide_files.TQDM]
        packages["pydoc_data"] = [[address[text.name], _hex(text)]]
        core = [[name, _base64(digest), (pyodide_files.PYODIDE / name).stat().st_size]
                for name, digest in pyodide_files.CORE.items()]
        start = [[self._of_list(name)[0], _base64(self.listed[name]["sha256"]),
                  (pyodide_files.PACKAGES / self.listed[name]["file_name"]).stat().st_size]
                 for name in AT_START]
        start.append([address[wheel.name], _base64(_hex(wheel)), wheel.stat().st_size])
        return {"pyodide": self.host, "core": core, "start": start, "packages": packages}

    def _copy(self, folder):
        folder.mkdir(parents=True)
        for name in pyodide_files.CORE:
            shutil.copy2(pyodide_files.PYODIDE / name, folder)
        for name in self._chosen():
            shutil.copy2(pyodide_files.PACKAGES / self.listed[name]["file_name"], folder)

    def _chosen(self):
        """Names in Pyodide's list of the packages that are here."""
        return [name for name, each in self.listed.items()
                if self.wheels.get(each["file_name"]) == each["sha256"]]

    def _needs(self, package):
        """A package and all that it needs, but for what is there from the start."""
        found = [package]
        for name in found:                            # the list grows
            found += [each for each in self.listed[name]["depends"] if each not in found]
        return [name for name in found if name not in AT_START]

    def _of_list(self, name):
        """[address, SHA-256] of a package."""
        each = self.listed[name]
        return [self.host + each["file_name"], each["sha256"]]


def kept(settings):
    """Addresses of what is kept for when there is no network, once Python has run."""
    names = [settings["pyodide"] + name for name, *_ in settings["core"]]
    names += [address for address, *_ in settings["start"]]
    names += [address for name, needed in settings["packages"].items() if name not in LARGE
              for address, _ in needed]
    return list(dict.fromkeys(names))


def numformer_wheel(folder):
    """The wheel of this tree, without the pictures of its pages."""
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "tree"
        for name in SOURCES:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, tree / name,
                                ignore=shutil.ignore_patterns("__pycache__", "*.png"))
            else:
                shutil.copy2(ROOT / name, tree / name)
        isolation = ["--no-build-isolation"] if _makes_wheels() else []
        subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *isolation,
                        "--wheel-dir", place, str(tree)], check=True,
                       env={**os.environ, "SOURCE_DATE_EPOCH": "315532800"})      # 1980, as zip
        wheel, = Path(place).glob("numformer-*.whl")
        return Path(shutil.copy(wheel, folder))


def _makes_wheels():
    """Whether the setuptools here makes wheels by itself; otherwise pip fetches one that does."""
    try:
        return tuple(map(int, version("setuptools").split(".")[:2])) >= (70, 1)
    except PackageNotFoundError:
        return False


def default_text(folder):
    """The text that models are trained on by default, as this Python has it, as an archive."""
    path = folder / "default_text.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {"__init__.py": "", "topics.py": Path(topics.__file__).read_text("utf-8")
                           }.items():
            archive.writestr(zipfile.ZipInfo(f"pydoc_data/{name}"), text, zipfile.ZIP_DEFLATED)
    return path


def _hex(path):
    return sha256(path.read_bytes()).hexdigest()


def _base64(digest):
    return base64.b64encode(bytes.fromhex(digest)).decode()
