"""numformer audit my_layers.py: layers of one's own, right and wrong, and files that are none."""

import json

import pytest

from numformer.cli import main
from numformer.testing.layers.audit_file import audit_file

LAYERS = '''
import numpy as np


class Base:
    def forward(self, x):
        raise NotImplementedError

    def backward(self, dy, saved):
        raise NotImplementedError


class Scale(Base):
    def __init__(self):
        self.w, self.dw = np.array([1.0, 2.0, 3.0]), np.zeros(3)

    def forward(self, x):
        return x * self.w, x

    def backward(self, dy, saved):
        self.dw += (dy * saved).reshape(-1, 3).sum(axis=0)
        return dy * self.w


class Keeps:
    def __init__(self):
        self.W, self.b = np.random.default_rng(0).standard_normal((4, 3)), np.zeros(3)

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, dy):
        self.dW = self.x.reshape(-1, 4).T @ dy.reshape(-1, 3)
        self.db = dy.reshape(-1, 3).sum(axis=0)
        return dy @ self.W.T


class Square:
    def forward(self, x):
        return x * x, x

    def backward(self, dy, saved):
        return 2 * dy * saved
'''


@pytest.fixture
def file(tmp_path):
    def written(text, name="layers.py"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)
    return written


def test_right_layers_are_ok(file, capsys):
    path = file(LAYERS)
    rows = audit_file(path)
    assert [(row["name"], row["ok"], row["parameters"]) for row in rows] == [
        ("Scale", True, 3), ("Keeps", True, 15), ("Square", True, 0)]
    assert all(row["max_error"] < 1e-13 for row in rows)
    assert main(["audit", path, "swiglu", "--json"]) == 0
    out = capsys.readouterr().out
    result = json.loads(out.splitlines()[-1])
    assert len(result["cases"]) == 3 + sum("swiglu" in case["name"].lower()
                                           for case in result["cases"])
    assert "ok   Scale" in out and "note Keeps: it keeps what its backward needs on itself" in out


@pytest.mark.parametrize("right, wrong, name", [
    ("return dy * self.w", "return dy", "Scale"), ("self.dw +=", "self.dw += 2 *", "Scale"),
    ("return dy @ self.W.T", "return dy @ self.W.T * 1.001", "Keeps"),
    ("self.db = dy", "self.db = 0 * dy", "Keeps"), ("2 * dy * saved", "dy * saved", "Square")])
def test_wrong_layers_fail(file, capsys, right, wrong, name):
    assert main(["audit", file(LAYERS.replace(right, wrong))]) == 1
    out = capsys.readouterr().out
    assert f"FAIL {name}" in out and "3 cases, 1 wrong" in out


def test_a_gradient_that_is_forgotten_is_noted(file, capsys):
    text = "\n".join(line for line in LAYERS.splitlines() if "self.db" not in line)
    main(["audit", file(text)])
    assert "note Keeps: y depends on b, of which there is no gradient" in capsys.readouterr().out


def test_examples_of_the_file_are_what_is_checked(file):
    examples = '''

class Power:
    def __init__(self, n):
        self.n = n

    def forward(self, x, shift=0.0):
        return (x + shift) ** self.n, x + shift

    def backward(self, dy, saved):
        return self.n * saved ** (self.n - 1) * dy


def cube(x):
    return x ** 3


def cube_backward(dy, x):
    return 3 * x * x * dy


'''
    x = "np.random.default_rng(0).standard_normal((2, 3))"
    dictionary = (f'{{"third": (Power(3), [{x}], {{"shift": 0.5}}), '
                  f'"cube": ((cube, cube_backward), {x})}}')
    for given in (f"audit = {dictionary}", f"def audit():\n    return {dictionary}"):
        rows = audit_file(file(LAYERS + examples + given))
        assert [(row["name"], row["ok"]) for row in rows] == [("third", True), ("cube", True)]
    with pytest.raises(ValueError, match=r'Power needs n; add an example .*"Power": \(Power'):
        audit_file(file(LAYERS + examples))


def test_what_the_file_imports_may_lie_next_to_it(file):
    file("SIZE = 3\n", "sizes_of_mine.py")
    assert audit_file(file("from sizes_of_mine import SIZE\n" + LAYERS))[0]["ok"]


@pytest.mark.parametrize("text, words", [
    ("x = (", "layers.py is no Python: '(' was never closed in line 1."),
    ("\nimport nothing_of_this_name", "layers.py raised ModuleNotFoundError in line 2: No module"),
    ("import sys\nsys.exit(0)", "layers.py raised SystemExit in line 2"),
    ("x = 1", "layers.py has no layers: no class with forward and backward"),
    ("audit = 3", "audit must be a dict of examples"), ("audit = {}", "audit must be a dict"),
    ("audit = {'a': 3}", "the example 'a' of audit must be (layer, inputs)"),
    ("audit = {'a': (3, [])}", "the example 'a': gradcheck: pass an object with forward"),
    ("def audit():\n    return 1 / 0", "its audit raised ZeroDivisionError"),
    ("class A:\n    def __init__(self):\n        1 / 0\n    def forward(self, x): pass\n"
     "    def backward(self, dy): pass", "A() raised ZeroDivisionError")])
def test_a_file_that_is_none_is_one_line(file, capsys, text, words):
    assert main(["audit", file(text)]) == 2
    err = capsys.readouterr().err
    assert words in err and len(err.splitlines()) == 1, err


def test_a_file_that_is_missing_is_one_line(tmp_path, capsys):
    assert main(["audit", str(tmp_path / "no.py")]) == 2
    assert "no.py: No such file or directory" in capsys.readouterr().err


def test_a_layer_that_takes_no_guessed_input_says_what_to_give(file, capsys):
    text = ("import numpy as np\nclass A:\n    def forward(self, x):\n"
            "        if x.shape != (9, 9):\n            raise ValueError('nine')\n"
            "        return x, ()\n"
            "    def backward(self, dy, saved):\n        return dy\n")
    assert main(["audit", file(text)]) == 1
    assert "takes no random inputs of the usual shapes (nine); give an example" in \
        capsys.readouterr().out
    given = "audit = {'A': (A(), [np.ones((9, 9))])}"
    assert audit_file(file(text + given))[0]["ok"]


FORMS = {"dW": "self.dW = {}", "W_grad": "self.W_grad = {}", "grad_W": "self.grad_W = {}",
         "grads": "self.grads = {{'W': {}}}", "grads_item": "self.grads['W'] = {}",
         "adds": "self.dW += {}", "sets": "self.dW = {}"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("saved", [True, False])
def test_gradients_are_where_assert_layer_matches_finds_them(file, form, saved):
    table, before = form.startswith("grads"), {
        "grads_item": "self.grads = {}", "adds": "self.dW = np.zeros((4, 3))",
        "sets": "self.dW = np.zeros((4, 3))"}.get(form, "pass")
    text = f"""
import numpy as np


class Affine:
    def __init__(self):
        W = np.random.default_rng(0).standard_normal((4, 3))
        {"self.params = {'W': W}" if table else "self.W = W"}
        {before}

    def forward(self, x):
        self.x, W = x, {"self.params['W']" if table else "self.W"}
        return {"x @ W, x" if saved else "x @ W"}

    def backward(self, dy{", x" if saved else ""}):
        x, W = self.x, {"self.params['W']" if table else "self.W"}
        {FORMS[form].format("x.reshape(-1, 4).T @ dy.reshape(-1, 3)")}
        return dy @ W.T
"""
    right, = audit_file(file(text))
    assert right["ok"] and right["parameters"] == 12, right
    wrong, = audit_file(file(text.replace(".T @ dy", ".T @ (1.001 * dy)")))
    assert not wrong["ok"] and "W" in wrong["worst"]


def test_objects_with_data_and_grad(file):
    text = """
import numpy as np


class P:
    def __init__(self, data, grad):
        self.data, self.grad = data, grad


class Scale:
    def __init__(self):
        self.w = P(np.array([1.0, 2.0, 3.0]), GRAD)

    def forward(self, x):
        return x * self.w.data, x

    def backward(self, dy, saved):
        self.w.grad = (dy * saved).reshape(-1, 3).sum(axis=0)
        return dy * self.w.data
"""
    for grad in ("None", "np.zeros(3)"):
        row, = audit_file(file(text.replace("GRAD", grad)))
        assert row["ok"] and row["parameters"] == 3


def test_a_layer_that_counts_its_calls_is_told(file):
    text = LAYERS.replace("return x * x, x", "self.n = getattr(self, 'n', 0) + 1\n"
                                             "        return x * x * self.n, x * self.n")
    row = audit_file(file(text))[-1]
    assert not row["ok"]
    assert row["findings"] == ["it keeps state between calls: a second call with the same inputs "
                               "gives another y"]


REAL = '''
import numpy as np


class Standard:
    def forward(self, x):
        self.r = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        self.n = (x - x.mean(-1, keepdims=True)) * self.r
        return self.n

    def backward(self, dy):
        return self.r * (dy - dy.mean(-1, keepdims=True) - self.n * (dy * self.n).mean(
            -1, keepdims=True))


class Absolute:
    def forward(self, x):
        return np.abs(x), x

    def backward(self, dy, x):
        return dy * np.sign(x)


class Unit:
    def forward(self, x):
        n = np.linalg.norm(x, axis=-1, keepdims=True)
        return x / n, (x / n, n)

    def backward(self, dy, saved):
        y, n = saved
        return (dy - y * (y * dy).sum(-1, keepdims=True)) / n


class Buffer:
    def __init__(self):
        self.W = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)

    def forward(self, x):
        y = np.zeros(x.shape)
        for t in range(x.shape[1]):
            y[:, t] = x[:, t] @ self.W
        return y, x

    def backward(self, dy, x):
        self.dW = x.reshape(-1, 4).T @ dy.reshape(-1, 4)
        return dy @ self.W.T
'''


def test_where_the_complex_step_cannot_be_used_differences_can(file, capsys):
    rows = audit_file(file(REAL))
    assert [(row["ok"], row["method"]) for row in rows] == [(True, "central differences")] * 4
    assert all("not complex-safe: " in " ".join(row["remarks"]) for row in rows)
    assert "W came in float32 and were checked in float64" in rows[-1]["remarks"]
    wrong = REAL.replace("dy * np.sign", "0.999 * dy * np.sign")
    wrong = wrong.replace("self.dW = ", "self.dW = 2 * ")
    assert [row["ok"] for row in audit_file(file(wrong))] == [True, False, True, False]


def test_an_example_may_ask_for_central_differences(file):
    x = "np.random.default_rng(0).standard_normal((2, 3))"
    for example in (f'(Square(), [{x}], {{"complex_safe": False}})',
                    f'((lambda x: x * x, lambda dy, x: 2 * dy * x), [{x}], '
                    '{"complex_safe": False})'):
        row, = audit_file(file(f'{LAYERS}\naudit = {{"mine": {example}}}'))
        assert row["ok"] and row["method"] == "central differences"
        assert not any("not complex-safe" in remark for remark in row["remarks"])


def test_a_layer_that_computes_in_float32_is_told(file):
    text = LAYERS.replace("return x * x, x", "return np.float32(x) ** 2, x")
    row = audit_file(file(text))[-1]
    assert not row["ok"] and "float32" in " ".join(row["findings"])


def test_classes_without_an_example_are_named(file, capsys):
    text = LAYERS + "\naudit = {'mine': (Scale(), [np.ones((2, 3))])}"
    assert main(["audit", file(text), "--json"]) == 0
    out = capsys.readouterr().out
    assert "not audited, as they are in no example: Keeps, Square\n" in out
    assert json.loads(out.splitlines()[-1])["not_audited"] == ["Keeps", "Square"]
    assert main(["audit", file(LAYERS)]) == 0
    assert "not audited" not in capsys.readouterr().out
