"""Models of transformers with random weights in float64, and the checks that ours are the same."""

import numpy as np
import pytest

from numformer.functional import IGNORE_INDEX
from numformer.interop import gradients, load, save

torch = pytest.importorskip("torch", reason="the witness, PyTorch, is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
# Its table of the sizes of dtypes is to be made before `in_double` gives them other names
pytest.importorskip("safetensors.torch", reason="transformers writes its files with it")

VOCABULARY = 23
EAGER = dict(attn_implementation="eager", experts_implementation="eager")
quiet = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def in_double(monkeypatch):
    """transformers computes norms, softmax and rotary angles in float32 whatever the weights are;
    and it writes to the terminal."""
    for name in ("float", "float32"):
        monkeypatch.setattr(torch, name, torch.float64)
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    # BLOOM has sqrt(2 / pi) to 8 digits
    monkeypatch.setattr(transformers.models.bloom.modeling_bloom, "bloom_gelu_forward",
                        lambda x: torch.nn.functional.gelu(x, approximate="tanh"))
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def random_model(kind, config, seed=0):
    """A model of transformers whose every parameter is random, in float64, and used as it is."""
    config._attn_implementation = config._experts_implementation = "eager"
    model = kind(config).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            one = name.endswith("weight") and parameter.ndim == 1     # of a norm
            parameter.copy_(noise + (1.0 if one else 0.0))
    return model


def folder_of(model, path):
    """Save a model of transformers; returns the folder."""
    model.save_pretrained(path)
    return path


def saved_tensors(folder):
    """All tensors of a folder, read by the library of safetensors."""
    from safetensors.numpy import load_file

    return {name: array for path in sorted(folder.glob("*.safetensors"))
            for name, array in load_file(path).items()}


def gradients_of(theirs, path):
    """The gradients of a model of transformers by the names that it saves its weights under: a
    copy of the model holds them in place of its weights, and is saved."""
    with torch.no_grad():
        for parameter in theirs.parameters():
            gradient = parameter.grad
            parameter.copy_(torch.zeros_like(parameter) if gradient is None else gradient)
    buffers = dict(theirs.named_buffers())
    return {name: array for name, array in saved_tensors(folder_of(theirs, path)).items()
            if name not in buffers}


def close(found, expected, tolerance):
    found, expected = np.asarray(found), np.asarray(getattr(expected, "detach", lambda: expected)())
    assert found.shape == expected.shape
    worst = np.abs(found - expected).max() / max(1e-300, np.abs(expected).max())
    assert worst <= tolerance, f"off by {worst:.2e}"


def gradients_agree(ours, theirs, path):
    """Every gradient, relative to the largest of its tensor. The gradient of a key bias, which
    softmax takes away, is 0: theirs and ours have only rounding in it."""
    expected, found = gradients_of(theirs, path), gradients(ours, theirs.config.model_type)
    assert found.keys() == expected.keys()
    largest = max(np.abs(array).max() for array in expected.values())
    for name, array in found.items():
        scale = np.abs(expected[name]).max()
        if scale < 1e-12 * largest:
            assert np.abs(array).max() < 1e-12 * largest, name
            continue
        worst = np.abs(array - expected[name]).max() / scale
        assert worst <= 1e-9, f"{name}: off by {worst:.2e}"


def goes_back(theirs, ours, tmp_path, inputs):
    """An exported folder loads in transformers with the same logits; and a second time in ours it
    is the same to the byte."""
    family = theirs.config.model_type
    out, again = tmp_path / "out", tmp_path / "again"
    save(ours, None, out, family)
    theirs_again = type(theirs).from_pretrained(out, **EAGER).eval()
    assert next(theirs_again.parameters()).dtype == torch.float64
    with torch.no_grad():
        for found, expected in zip(theirs_again(**inputs).to_tuple(), theirs(**inputs).to_tuple()):
            if torch.is_tensor(expected):
                close(found, expected, 1e-12)
    second, _ = load(out)
    for (name, a), (_, b) in zip(ours.named_parameters(), second.named_parameters(), strict=True):
        assert a.data.tobytes() == b.data.tobytes(), name
    assert second.config == ours.config
    save(second, None, again, family)
    for name in ("config.json", "model.safetensors"):
        assert (out / name).read_bytes() == (again / name).read_bytes()


def next_tokens(rng, B=3, T=7):
    """Inputs and targets, some of which do not count."""
    ids = rng.integers(0, VOCABULARY, (B, T + 1))
    targets = ids[:, 1:].copy()
    targets[0, 2], targets[-1, 0] = IGNORE_INDEX, IGNORE_INDEX
    return ids[:, :-1], targets


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, -2), torch.tensor(targets).flatten(),
                                             ignore_index=IGNORE_INDEX)
