"""Mutated files of every kind that the program reads: refused with one line, or harmless.

    python tests/attacks/mutated_files.py 10000         # so many files, 10 to 20 minutes
    python tests/attacks/mutated_files.py 200 7         # fewer, with another seed

Kinds: checkpoints whose bytes are changed; checkpoints whose facts or arrays are changed and whose
checksum is right; metrics; tokenizers; texts; the record of `reproduce`; the manifest of exercises.
`run_folders.py` beside it has links, pipes, devices and folders in the place of files.
"""

import contextlib
import io
import json
import math
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from hostile import mutated_bytes, mutated_json
from judging import Attacks, Finding, numbers_of_command_line, verb
from numformer.cli import main
from numformer.commands import UsageError
from numformer.commands.reproduce import _read_record
from numformer.data import (
    BytePairTokenizer, CharacterTokenizer, DataError, WordTokenizer, load_corpus,
    tokenizer_from_json)
from numformer.files import FileError, parse_json
from numformer.runs import CheckpointError, RunFolder, load_checkpoint
from numformer.runs.checkpoint import VERSION, checksum, format_of
from numformer.teaching.manifest import MANIFEST, read_manifest
from numformer.teaching.variants.key import KEY, make_key, read_key

TEXT = "the quick brown fox jumps over the lazy dog, and\nthe dog sleeps on.\n" * 30
SMALL = ["--n-layers", "1", "--n-heads", "2", "--d-model", "8", "--context-length", "16",
         "--batch-size", "2", "--warmup-steps", "1"]
RUNS = {                                              # runs whose checkpoints are mutated
    "decoder": ["--preset", "gpt", *SMALL],
    "ngram": ["--preset", "ngram"],
    "lstm": ["--preset", "lstm", "--d-model", "8", "--context-length", "16", "--batch-size", "2"],
    "moe": ["--preset", "moe", *SMALL],
}


def main_of_attack(count, seed=0, runs=RUNS, seconds=5.0):
    """Run the attack; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "fox.txt").write_text(TEXT)
        for name, argv in runs.items():
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(sys.stderr):
                assert main(["train", "--data", str(folder / "fox.txt"), "--out",
                             str(folder / name), "--steps", "3", "--eval-every", "1",
                             "--threads", "1", *argv]) == 0
        attacks, kinds = Attacks(seconds), list(KINDS.items())
        for i in range(count):
            name, kind = kinds[i % len(kinds)]
            rng = np.random.default_rng([seed, i])
            originals = [folder / run for run in runs]
            target = folder / "target"
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            attacks.attempt(f"{name} {i}", kind(rng, originals[i // len(kinds) % len(originals)],
                                                target))
        return attacks.report()


def checkpoint_bytes(rng, original, target):
    """Changed bytes: refused, or the same arrays and facts."""
    path = original / "checkpoint.safetensors"
    before = load_checkpoint(path)
    (target / path.name).write_bytes(mutated_bytes(rng, path.read_bytes()))

    def attempt():
        how = verb("count", target, "--json")
        if how == "accepted":
            arrays, facts = load_checkpoint(target / path.name)
            same = facts == before[1] and all(np.array_equal(arrays[name], array)
                                              for name, array in before[0].items())
            if not same or arrays.keys() != before[0].keys():
                raise Finding("other content was accepted")
        return how

    return attempt


def facts_with_checksum(rng, original, target):
    """Hostile facts with a right checksum: refused, or a run that works."""
    arrays, facts = load_checkpoint(original / "checkpoint.safetensors")
    text, path = mutated_json(rng, facts)
    write_checkpoint(target / "checkpoint.safetensors", arrays, text)
    return _used(target, rng, ".".join(map(str, path)))


def arrays_with_checksum(rng, original, target):
    """Hostile arrays with a right checksum: refused, or a run that works."""
    arrays, facts = load_checkpoint(original / "checkpoint.safetensors")
    names = list(arrays)
    name, kind = names[rng.integers(len(names))], rng.integers(0, 9)
    array = arrays[name]
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name + "\x1b[2J"] = arrays.pop(name)
    elif kind == 2:
        arrays[name] = array.astype(rng.choice(["int8", "float16", "float64", "bool", "int64"]))
    elif kind == 3:
        arrays[name] = array.reshape(-1)
    elif kind == 4:
        arrays[name] = np.zeros((0, *array.shape), array.dtype)
    elif kind == 5:
        arrays["optimizer.new" if rng.integers(2) else "new"] = array
    else:
        flat = array.reshape(-1).copy()
        if flat.size:
            values = ([0, -1, 2**62, -2**63] if array.dtype.kind == "i"
                      else [np.nan, np.inf, -np.inf, 1e30, 0.0])
            flat[rng.integers(flat.size)] = values[rng.integers(len(values))]
        arrays[name] = flat.reshape(array.shape)
    write_checkpoint(target / "checkpoint.safetensors", arrays, json.dumps(facts))
    return _used(target, rng, name)


def _used(target, rng, what):
    """Count the model, then sample from it, evaluate it or continue it.

    It continues to step 6: a run whose facts want 3e12 steps is a long training, no hang.
    """
    chosen = [("sample", target, "--tokens", "2", "--json"), ("eval", target, "--json"),
              ("train", "--resume", "--out", target, "--threads", "1", "--steps", "6")][
                  rng.choice(3, p=[0.5, 0.3, 0.2])]

    def attempt():
        how = verb("count", target, "--json")
        try:
            used = verb(*chosen)
        except Finding as error:
            raise Finding(f"{what}, {chosen[0]}: {error}") from None
        if how == "refused" and used == "accepted":
            raise Finding(f"{what}: refused by count, but not by {chosen[0]}")
        return used

    return attempt


def write_checkpoint(path, arrays, text):
    """A checkpoint with any text as its facts, and a right checksum where there is one."""
    from safetensors.numpy import save

    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    try:
        digest = checksum(json.loads(text), ((name, array.dtype, array.shape, [array.data])
                                             for name, array in sorted(arrays.items())))
    except (ValueError, RecursionError):
        digest = "0" * 64
    text = f'{{"format": "{format_of(VERSION)}", "sha256": "{digest}", {text[1:]}'
    path.write_bytes(save(arrays, {"numformer": text}))


def metrics(rng, original, target):
    """Changed metrics: refused by line, or still lines of rising steps and finite numbers."""
    lines = (original / "metrics.jsonl").read_bytes().splitlines()
    if rng.integers(2):
        at = int(rng.integers(len(lines)))
        lines[at] = mutated_json(rng, json.loads(lines[at]))[0].encode()
        data = b"\n".join([*lines, b""])
    else:
        data = mutated_bytes(rng, b"\n".join([*lines, b""]))
    (target / "metrics.jsonl").write_bytes(data)

    def attempt():
        try:
            found = RunFolder(target).read_metrics()
        except FileError as error:
            assert "metrics.jsonl, line " in str(error)
            return "refused"
        whole = data.count(b"\n")
        steps = [[line["step"] for line in found if kind in line] for kind in ("loss", "val_loss")]
        numbers = [value for line in found for name, value in line.items()
                   if name != "update_ratio"]
        if (len(found) != whole or any(sorted(set(each)) != each for each in steps)
                or not all(math.isfinite(number) for number in numbers)):
            raise Finding(f"{data!r} became {found}")
        return "accepted"

    return attempt


def tokenizers(rng, original, target):
    """Changed tokenizers: refused, or one that encodes and decodes."""
    made = [CharacterTokenizer.of(TEXT, ("[PAD]",)), WordTokenizer.of(TEXT),
            BytePairTokenizer.of(TEXT, 12, ("[EOS]",))][rng.integers(3)]
    text, _ = mutated_json(rng, made.to_json())
    if rng.integers(8) == 0:                          # merges that double
        merges = [[97, 97], *([256 + k, 256 + k] for k in range(int(rng.integers(5, 70))))]
        text = json.dumps({"kind": "byte_pairs", "special": [], "merges": merges})

    def attempt():
        try:
            tokenizer = tokenizer_from_json(parse_json(text))
        except ValueError:
            return "refused"
        try:
            ids = tokenizer.encode("the dog")
            if not isinstance(tokenizer.decode(ids), str) or ids.max() >= len(tokenizer):
                raise Finding("it does not decode its ids")
        except ValueError:
            return "accepted, another vocabulary"
        return "accepted"

    return attempt


def texts(rng, original, target):
    """Changed texts: refused, or just another text."""
    data = TEXT.encode() + "äöü 漢字 👩\u200d🔬\r\n".encode() * 5
    (target / "text").write_bytes(mutated_bytes(rng, mutated_bytes(rng, data)))

    def attempt():
        try:
            corpus = load_corpus(target / "text")
        except DataError:
            return "refused"
        tokenizer = CharacterTokenizer.of(corpus.text)
        if tokenizer.decode(tokenizer.encode(corpus.text)) != corpus.text:
            raise Finding("the text does not come back")
        return "accepted"

    return attempt


def records(rng, original, target):
    """Changed records of `reproduce`: refused, or still numbers."""
    record = {"settings": {"kind": "Decoder", "steps": 3}, "minutes": 1.5,
              "figures": {"val_loss": 1.25, "tokens": 1000}}
    text = (mutated_json(rng, record)[0].encode() if rng.integers(2)
            else mutated_bytes(rng, json.dumps(record).encode()))
    (target / "reproduced.json").write_bytes(text)

    def attempt():
        try:
            found = _read_record(target / "reproduced.json")
        except (UsageError, FileError):
            return "refused"
        if not all(math.isfinite(number) for number in found["figures"].values()):
            raise Finding(f"{text!r} became {found}")
        return "accepted"

    return attempt


def manifests(rng, original, target):
    """Changed manifests of exercises: refused, or still a seed and names, or forms."""
    manifest = [{"seed": 3, "exercises": ["01_softmax", "02_attention"]},
                {"variant": "9f3c", "exercises": {"01_softmax": [], "31_figure_mask": [2, 1, 5]}},
                ][rng.integers(2)]
    text = (mutated_json(rng, manifest)[0].encode("utf-8", "surrogatepass") if rng.integers(2)
            else mutated_bytes(rng, json.dumps(manifest).encode()))
    (target / MANIFEST).write_bytes(text)

    def attempt():
        try:
            read_manifest(target)
        except (ValueError, UsageError, CheckpointError):
            return "refused"
        return "accepted"

    return attempt


def keys(rng, original, target):
    """Changed keys of a variant: refused, or the same key in another layout."""
    key = make_key(["1", "31"], "a term")
    text = (mutated_json(rng, json.loads(key.text()))[0].encode("utf-8", "surrogatepass")
            if rng.integers(2) else mutated_bytes(rng, key.text().encode()))
    (target / KEY).write_bytes(text)

    def attempt():
        try:
            found = read_key(target)
        except ValueError:
            return "refused"
        if found != key:
            raise Finding(f"{text!r} became {found}")
        return "accepted"

    return attempt


KINDS = {
    "checkpoint_bytes": checkpoint_bytes, "facts": facts_with_checksum,
    "metrics": metrics, "facts_again": facts_with_checksum, "arrays": arrays_with_checksum,
    "tokenizers": tokenizers, "texts": texts, "records": records, "manifests": manifests,
    "keys": keys,
}


if __name__ == "__main__":
    count, seed = numbers_of_command_line(10_000)
    sys.exit(main_of_attack(count, seed))
