"""The folder of the site: a page for each lesson, pictures, Python, and what keeps it all offline

Everything that a page loads has its hash in its name, but for the pages themselves and notebooks,
which come from the network first, and Pyodide, whose files are verified by the hashes of its
release. So nothing old is ever shown for new.
"""

import hashlib
import html
import json
import shutil
import tempfile
from pathlib import Path
from string import Template

from web import lesson, packages

HERE = Path(__file__).parent
PAGE = Template((HERE / "page.html").read_text("utf-8"))
STYLE = "page.css"
SCRIPTS = "page.js", "contents.js", "editor.js", "python.js", "worker.js", "cells.py"
NO_SCRIPT = ('<span class="static">Cells run where a web server sends this page: '
             '<a href="server.html">for your server</a></span>')
MARK = "notebooks/course.txt"                         # the file by which a site is known
WORKER = "offline.js"                                 # is for its own folder and those below it


def build(out, notebooks, extra=(), python=None):
    """Write the site: all of it, or nothing.

    Parameters
    ----------
    out : Path
        Folder to write; one that exists must be a site.
    notebooks : list of Path
        Executed notebooks, in the order of the course.
    extra : tuple of (Path, str)
        Pages in Markdown and the title of each.
    python : packages.Python or None
        What runs the cells; None for pages to be read alone.

    Returns
    -------
    list of str
        All files, relative to the folder.

    Raises
    ------
    ValueError
        If the folder holds something else than a site, or a lesson cannot be shown.
    """
    if out.exists() and any(out.iterdir()) and not (out / MARK).is_file():
        raise ValueError(f"{out} holds something else than a site; name another folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as place:
        made = Path(place) / "site"
        made.mkdir()
        _build(made, notebooks, extra, python)
        if out.exists():
            out.rename(Path(place) / "older")
        made.rename(out)
    return _files(out)


def _build(out, notebooks, extra, python):
    scripts, settings = _scripts(out, python)
    lessons = {path.stem: json.loads(path.read_text("utf-8")) for path in notebooks}
    titles = {name: lesson.title_of(notebook) for name, notebook in lessons.items()}
    names = list(lessons)

    def keep_picture(png):
        name = f"pictures/{hashlib.sha256(png).hexdigest()[:16]}.png"
        (out / name).write_bytes(png)
        return name

    def write(name, title, text, lesson_name="", turn=""):
        static = python and lesson_name and NO_SCRIPT
        program = ("page.js" if lesson_name else "contents.js") if python else ""
        program = program and f'<script type="module" src="{scripts}/{program}"></script>'
        page = PAGE.substitute(title=html.escape(_plain(title)), text=text, program=program,
                               style=f"{scripts}/{STYLE}", lesson=html.escape(lesson_name),
                               turn=turn, static=static or "")
        (out / f"{name}{lesson.ENDING}").write_text(page, "utf-8")

    (out / "pictures").mkdir()
    (out / "notebooks").mkdir()
    (out / MARK).write_text("The lessons as notebooks without outputs, for Download.\n")
    for place, (name, notebook) in enumerate(lessons.items()):
        turn = [*(("prev", each) for each in names[:place][-1:]),
                *(("next", each) for each in names[place + 1:][:1])]
        links = " ".join(f'<a rel="{where}" href="{each}{lesson.ENDING}">'
                         f"{lesson.line(titles[each])}</a>" for where, each in turn)
        write(name, titles[name], lesson.body(notebook, keep_picture), name, links)
        (out / "notebooks" / f"{name}.ipynb").write_text(lesson.bare(notebook), "utf-8")
    write("index", "The course", _contents(titles, lessons, extra))
    for path, title in extra:
        write(path.stem.lower(), title, lesson.markdown(path.read_text("utf-8")))
    if python:
        _keep_offline(out, settings)


def _files(out):
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())


def _scripts(out, python):
    """(name of the folder of scripts, with the hash of what is in it; settings of the pages)."""
    folder = out / "scripts"
    folder.mkdir()
    settings = python and python.write(out, folder)
    for name in (STYLE, *(SCRIPTS if python else ())):
        shutil.copy2(HERE / name, folder)
    if python:
        (folder / "settings.json").write_text(json.dumps(settings, indent=1), "utf-8")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir())))
    named = f"scripts-{digest.hexdigest()[:12]}"
    if python:                                        # addresses have the name
        settings = json.loads(json.dumps(settings).replace('"scripts/', f'"{named}/'))
        (folder / "settings.json").write_text(json.dumps(settings, indent=1), "utf-8")
    folder.rename(out / named)
    return named, settings


def _keep_offline(out, settings):
    """The worker that keeps the site, with its lists of files: pages at once, others later."""
    rest = [*packages.kept(settings), *(
        name for name in _files(out) if name.startswith("pictures/"))]
    pages = [name for name in _files(out) if name not in rest and not name.startswith(
        (settings["pyodide"], "pictures/"))]
    site = {"name": f"numformer {packages.pyodide_files.VERSION}", "host": settings["pyodide"],
            "pages": pages, "rest": rest}
    source = (HERE / WORKER).read_text("utf-8")
    (out / WORKER).write_text(source.replace('"SITE"', json.dumps(site), 1), "utf-8")


def _plain(markdown):
    return markdown.replace("$", "").replace("`", "").replace("\\", "")


def _contents(titles, lessons, extra):
    """The text of the first page: a list of lessons, each with how many exercises it checks."""
    rows = []
    for name, title in titles.items():
        checks = [key for place, key in lesson.keys_of(lessons[name]).items()
                  if lesson.checked(lesson.source_of(lessons[name]["cells"][place]))]
        rows.append(f'<li data-lesson="{name}" data-checks="{" ".join(checks)}">'
                    f'<a href="{name}{lesson.ENDING}">{lesson.line(title)}</a></li>')
    links = "".join(f'<p><a href="{path.stem.lower()}{lesson.ENDING}">{html.escape(title)}</a></p>'
                    for path, title in extra)
    about = lesson.markdown((HERE / "about.md").read_text("utf-8"))
    return f'{about}<ul class="lessons">{"".join(rows)}</ul>{links}'


def size(out):
    return sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
