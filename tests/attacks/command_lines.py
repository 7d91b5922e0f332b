"""Wrong command lines, made from the parser: every one is refused with one clean line.

    python tests/attacks/command_lines.py               # all, about 1,300
    python tests/attacks/command_lines.py 400           # a random part

For every verb and flag: a misspelt flag, no value, values of another type or out of range, words
that are no choice; missing files, folders, devices, pipes, links and strange names in the place of
files; and combinations that contradict each other.
"""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from judging import Attacks, Finding, check_refusal, numbers_of_command_line, verb
from mutated_files import SMALL, TEXT
from numformer.cli import VERBS, _parser, main

NO_INTS = ("1e9", "nan", "inf", "0x10", "１２", "", " ", "two", "1.5", "9" * 5000, "--", "1,000",
           "\x1b[2J", "\udcff", "-1", str(10**30))
NO_FLOATS = ("abc", "0x10", "１．５", "", "1e", "nan", "inf", "-inf", "9" * 5000, "\x1b[2J", "-1")
NO_WORDS = ("", "nothing", "\x1b[2J", "\u202e", "\udcff", "x" * 5000, "a\nb")
# (flag, value) that are right after all
ALLOWED = {("--seed", str(10**30)), ("--most", str(10**30)), ("--top-k", str(10**30)),
           ("--salt", "nothing")}
# verb, and a word more for another line of it: a command line that is right, {file flag or
# position: what its file is}; of a verb that is not here, unknown flags alone are tried
LINES = {
    "train": (["--data", "fox.txt", "--out", "new", "--steps", "1", "--threads", "1", "--preset",
               "gpt", *SMALL], {"--data": "text", "--out": "new folder", "--from": "run"}),
    "eval": (["run"], {0: "run", "--data": "text"}),
    "sample": (["run", "--tokens", "1"], {0: "run"}),
    "import": (["nowhere"], {0: "run"}),
    "export": (["nowhere", "--out", "new"], {0: "run"}),
    "count": (["run"], {0: "run"}),
    "plot": (["training", "run"], {1: "run", "--out": "picture"}),
    "draw": (["gpt2"], {0: "run", "--out": "picture"}),
    "replay": (["run"], {0: "run", "--out": "page"}),
    "explore": (["run", "--text", "the dog"], {0: "run", "--out": "page"}),
    "compare": (["run", "--seconds", "0"], {0: "run", "--out": "picture"}),
    "reproduce": (["tiny", "--seeds", "1", "--steps", "1", "--data", "fox.txt", "--out", "again"],
                  {"--data": "text"}),
    "experiment": (["no-such-experiment"], {}),
    "deck": (["B", "13"], {}),
    "exercises": (["1", "--out", "sheets"], {"--out": "new folder"}),
    "exercises variant": (["1", "--students", "sheets", "--salt", "a term"],
                          {"--students": "new folder", "--key": "folder of a key",
                           "--unlike": "run"}),
    "grade": (["nowhere"], {0: "run"}),
    "grade variant": (["nowhere", "--key", "variant-key"],
                      {2: "run", 0: "run", "--html": "page", "--csv": "table"}),
    "hint": (["10", "nowhere"], {1: "run"}),
    "solution": (["10", "nowhere"], {1: "run"}),
    "assemble": (["made/student", "--data", "fox.txt", "--steps", "1"],
                 {0: "run", "--data": "text"}),
    "audit": (["no-such-name"], {}),
    "bench": (["attention", "--case", "no-such-case"], {}),
    "figures": (["no-such-picture"], {}),
}
COMBINATIONS = [line.split() for line in """
    train --resume|train --resume --out run --from run|train --resume --out nowhere
    |train --resume --out run --preset tiny|train --resume --out run --steps 1
    |train --resume --out run --d-model 16|train --resume --out run --data latin.txt
    |train --preset gpt --out run --data fox.txt|train --preset vit --data fox.txt --out new
    |train --preset seq2seq --data fox.txt --out new|train --preset lstm --n-heads 2 --out new
    |train --preset ngram --learning-rate 0.1 --out new|train --preset tyni --out new
    |train --n-heads 5 --out new|train --d-model 1000000007 --n-heads 500000000 --out new
    |train --d-model 1000000000 --n-heads 1 --out new|train --batch-size 1000000000 --out new
    |train --n-layers 1000000000 --out new|train --context-length 1000000000 --out new
    |train --d-hidden 1000000000000 --out new|train --shards 1000000000 --out new
    |train --accumulation 1000000000000 --out new|train --preset moe --n-experts 1000000 --out new
    |train --learning-rate 1e-9 --out new|train --stop-at 9 --steps 5 --out new
    |train --data fox.txt --out fox.txt|train --data fox.txt --out fox.txt/run
    |train --data fox.txt --out /dev/null|train --data fox.txt --out /proc/run
    |train --preset topics --from run --out new|train --preset lstm --from run --out new
    |train --preset topics --from nowhere --out new|train --data empty --out new
    |eval|eval run run|sample run --temperature nan|sample run --top-p 2|sample run --top-k 0
    |sample run --prompt Ω|chat run|chat nowhere|chat run --template {%|chat run --tokens 0
    |chat run --template x --temperature nan|export run --out new --dtype int8
    |plot training|plot dance run|draw gtp2|draw LayerNrm
    |draw gpt2 --block 99|draw LayerNorm --block 1
    |draw gpt2 --layer blocks.0|draw run --layer blocks.9|draw run --block 1 --layer blocks.0
    |replay run --out film.txt|replay run --frames 1|replay run --fps 1 --seconds 1
    |replay run --slides --out film.html|replay run --text Ω|replay run --head 9
    |plot trainign run
    |plot training run --layer 9|plot attention run --layer 9
    |plot attention run --head 0|plot attention run --view side
    |plot attention run --out picture.txt|plot training run --out nowhere/picture.png
    |plot training run --out fox.txt/picture.png|explore run --out page.txt
    |explore run --text Ω|explore run --text dog --start 9|explore run --out nowhere/page.html
    |compare|compare run nowhere|compare run --out x.txt|count gpt9|count|trian|train train|run
    |exercises 1 --students new --out sheets|exercises 1 --students new --notebook otter
    |exercises 1 --students new --salt a --seed 1|exercises 1 --students new --unlike variant-key
    |exercises 1 --salt a|exercises --key new|exercises --unlike variant-key
    |exercises 1 --students variant --salt a|exercises 2 --students new --key variant-key
    |exercises 1 --students new --key variant-key --salt b
    |exercises 1 --students new --key variant-key --seed 1
    |exercises 1 --students variant-key/new --key variant-key|exercises --students .
    |grade variant|grade variant --key key-broken|grade variant --key other-key
    |grade forged --key variant-key|grade made/student --key variant-key|grade variant --key
    |hint 1 forged|solution 1 variant|assemble variant|assemble . run
    |reproduce tyni|exercises 999|exercises no-such --out sheets|exercises 1 --out fox.txt
    |deck F|deck B 0|deck B 999999|deck rottary|deck --line 3|deck --layer GRUX|experiment slups
    |audit LayerNrm|bench|bench tarin|doctor now|figures attentoin|--help=1
""".replace("\n", " ").split("|")]


def lines():
    """All wrong command lines, each as (name, argv)."""
    for name, right, files in [(name, *LINES[line]) for name in VERBS for line in LINES
                               if line.split()[0] == name] + [
                                   (name, None, {}) for name in VERBS if name not in LINES]:
        actions = [action for action in _parser(name).verb_parser._actions
                   if action.dest not in ("help", "json")]
        yield from ((name, [name, *(right or []), word]) for word in (
            "--colour", "--\x1b[2J", "--\udcff", "---", "--json=1", "--x" * 2000))
        if right is None:
            continue
        if name not in ("compare", "exercises", "grade"):             # any number of names
            yield name, [name, *right, "one", "too", "many"]
        for action in actions:
            if not action.option_strings:
                continue
            flag = action.option_strings[0]
            yield name, [name, *right, flag[:3] + flag[4:] if len(flag) > 5 else f"{flag}x"]
            if action.nargs == 0:
                yield name, [name, *right, f"{flag}=maybe"]
                continue
            yield name, [name, *right, flag]
            values = (NO_INTS if action.type is int else NO_FLOATS if action.type is float
                      else NO_WORDS if action.choices or action.type is str else ())
            for value in values:
                if (flag, value) not in ALLOWED:
                    yield f"{name} {flag}", [name, *right, f"{flag}={value}"]
        for where, kind in files.items():
            for value in STRANGE[kind]:
                argv = list(right)
                if isinstance(where, int):
                    argv[where] = value
                else:
                    argv += [f"{where}={value}"]
                yield f"{name} {where}", [name, *argv]
    yield from (("combination", argv) for argv in COMBINATIONS if argv)


NAMES = ("nowhere", "x" * 300, "\x1b[2J", "\u202egpj", "\udcff", "a\nb", "circle", "broken")
STRANGE = {
    "text": (*NAMES, "", ".", "run", "/dev/zero", "/dev/null", "zero", "pipe", "binary",
             "latin.txt", "empty", "sparse", "~nobody", "run/checkpoint.safetensors"),
    "run": (*NAMES, ".", "fox.txt", "/dev/zero", "/", "hostile-zero", "hostile-pipe",
            "hostile-folder", "hostile-sparse", "hostile-circle", "hostile-binary"),
    "new folder": ("fox.txt", "fox.txt/new", "/dev/null", "/proc/new", "x" * 300, "circle", "zero",
                   "pipe"),
    "picture": ("picture", "picture.txt", "nowhere/p.png", "fox.txt/p.png", "x" * 300 + ".png",
                "folder.png", "\x1b[2J", "\udcff.txt"),
    "folder of a key": ("fox.txt", "fox.txt/new", "/dev/null", "/proc/new", "x" * 300, "circle",
                        "zero", "pipe", "sheets", "sheets/key", ".", "run", "key-broken"),
    "table": ("table", "table.txt", "nowhere/t.csv", "fox.txt/t.csv", "x" * 300 + ".csv",
              "\x1b[2J"),
    "page": ("page", "page.txt", "nowhere/p.html", "fox.txt/p.html", "x" * 300 + ".html",
             "folder.html", "\x1b[2J"),
}


def prepare():
    """Make the files that the lines name, in the current folder."""
    Path("fox.txt").write_text(TEXT)
    Path("latin.txt").write_bytes(b"caf\xe9 " * 500)
    Path("binary").write_bytes(bytes(range(256)) * 9)
    Path("empty").write_bytes(b"")
    with open("sparse", "wb") as file:
        file.truncate(2**40)
    os.mkfifo("pipe")
    for link, end in (("zero", "/dev/zero"), ("circle", "circle"), ("broken", "nothing")):
        os.symlink(end, link)
    for folder in ("folder.png", "folder.html"):
        os.mkdir(folder)
    for kind in ("zero", "pipe", "folder", "sparse", "circle", "binary"):
        run = Path(f"hostile-{kind}")
        run.mkdir()
        target = run / "checkpoint.safetensors"
        target.mkdir() if kind == "folder" else target.symlink_to(Path.cwd() / kind)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        assert main(["train", *LINES["train"][0], "--out", "run", "--steps", "3"]) == 0
        assert main(["exercises", "1", "--out", "made"]) == 0
        for name in ("variant", "other", "forged"):
            assert main(["exercises", "1", "31", "--students", name, "--salt", "a term"]) == 0
    Path("forged/assignment.json").write_bytes(
        Path("variant/assignment.json").read_bytes().replace(b'"01_softmax": [],', b""))
    os.mkdir("key-broken")
    Path("key-broken/key.json").write_bytes(
        Path("variant-key/key.json").read_bytes().replace(b"a term", b"no term"))


def main_of_attack(count=None, seed=0, seconds=5.0, processes=40):
    """Run the attack in a folder of its own; return the exit status.

    Every so many lines, one runs in a process of its own.
    """
    rng = np.random.default_rng(seed)
    found = list(lines())
    if count and count < len(found):
        found = [found[i] for i in sorted(rng.choice(len(found), count, replace=False))]
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            prepare()
            files = set(os.listdir())
            attacks = Attacks(seconds)
            for i, (name, argv) in enumerate(found):
                own = processes and i % processes == 0
                shown = " ".join(word[:60] for word in argv)
                attacks.attempt(f"{name.split()[0]} {shown}", lambda: refused(argv, files, own))
            return attacks.report()
        finally:
            os.chdir(before)


def refused(argv, files, own):
    """Run a line, which must be refused and leave nothing behind."""
    how = in_a_process(argv) if own else verb(*argv)
    left = set(os.listdir()) - files
    files |= left
    if how != "refused":
        raise Finding("accepted")
    if left:
        raise Finding(f"left {sorted(left)} behind")
    return how


def in_a_process(argv):
    words = [os.fsencode(word) for word in argv]
    ended = subprocess.run([sys.executable, "-m", "numformer", *words], capture_output=True)
    check_refusal(ended.returncode, ended.stderr.decode())
    return "refused"


if __name__ == "__main__":
    count, seed = numbers_of_command_line(0)
    sys.exit(main_of_attack(count, seed))
