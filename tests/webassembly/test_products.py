"""The bytes of the products in WebAssembly; what they compute is tested in test_pyodide.py."""

import shutil
import subprocess

import numpy as np
import pytest

from numformer import backend
from numformer.webassembly import numpy_loop
from numformer.webassembly.assembler import assemble
from numformer.webassembly.numpy_loop import Unavailable, module_of, set_loops

FACTORIAL = """
(module                              ;; of a number, by a loop
  (import "numpy" "memory" (memory 0))
  (func $up (export "up") (param $at i32) (param $n i32)
    (local $found i32)
    (local.set $found (i32.const 1))
    (block $done (loop $next
      (br_if $done (i32.eqz (local.get $n)))
      (local.set $found (i32.mul (local.get $found) (local.get $n)))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br $next)))
    (if (i32.gt_s (local.get $found) (i32.const 1000))
      (then (local.set $found (i32.const -129))) (else))
    (i32.store offset=4 (local.get $at) (local.get $found))))
"""
NODE = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def said_by_node(program, data):
    ended = subprocess.run(["node", "-e", f"const data = require('fs').readFileSync(0); {program}"],
                           input=data, capture_output=True, timeout=60)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode().split()


@NODE
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_modules_are_valid(dtype):
    data = module_of(dtype)
    assert said_by_node("console.log(WebAssembly.validate(data))", data) == ["true"]
    assert len(data) < 2000
    assert said_by_node("console.log(WebAssembly.validate(data))", data[:-1]) == ["false"]


@NODE
def test_an_assembled_program_computes():
    program = """
        const memory = new WebAssembly.Memory({ initial: 1 });
        const { up } = new WebAssembly.Instance(new WebAssembly.Module(data),
                                                { numpy: { memory } }).exports;
        for (const n of [0, 1, 5, 6, 7]) {
            up(8, n);
            console.log(new Int32Array(memory.buffer)[3]);
        }"""
    assert said_by_node(program, assemble(FACTORIAL)) == ["1", "1", "120", "720", "-129"]


@pytest.mark.parametrize("text, words", [
    ("(module", "a bracket is not closed"), ("(module))", "a bracket is closed"),
    ("(module (func $f (i64.add (i32.const 1) (i32.const 2))))", "i64.add is not known here"),
    ("(module (func $f (local.get $x)))", "x"), ("(module (func $f (br $out)))", "out")])
def test_what_cannot_be_assembled_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        assemble(text)


def test_elsewhere_there_are_no_such_products():
    version = backend.version_in_use()
    with pytest.raises(Unavailable, match="only in a browser's Python"):
        set_loops(True)
    with pytest.raises(ValueError, match="use: version='wasm' cannot run here: only in a browser"):
        backend.use("wasm")
    with pytest.raises(ValueError, match="cannot run here"), backend.using("wasm"):
        pass
    assert backend.version_in_use() == version


def test_a_browser_without_vectors_keeps_the_loops_of_numpy(monkeypatch):
    monkeypatch.setattr(numpy_loop.sys, "platform", "emscripten")
    with pytest.raises(Unavailable, match="CompileError: no vectors"):
        monkeypatch.setattr(numpy_loop, "_address", fails)
        set_loops(True)


def test_loops_that_compute_something_else_are_not_used(monkeypatch):
    monkeypatch.setattr(numpy_loop.sys, "platform", "emscripten")
    monkeypatch.setattr(numpy_loop, "_address", lambda dtype: 7)
    used = []

    def replace(dtype, loop):
        used.append(loop)
        monkeypatch.setattr(np, "allclose", lambda *_, **options: False)
        return 3

    monkeypatch.setattr(numpy_loop, "_replace", replace)
    with pytest.raises(Unavailable, match="its products of float32 are wrong"):
        set_loops(True)
    assert used == [7, 3]


class CompileError(Exception):
    """As of JavaScript."""


def fails(dtype):
    raise CompileError("no vectors")
