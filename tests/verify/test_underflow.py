"""Underflow raises nothing under np.seterr(all="raise"), in functions, layers, losses, training and
sampling, in both versions; overflow and NaN still do."""

import numpy as np
import pytest

from marks import every
from numformer import backend
from numformer import functional as F
from numformer.data import BlockStream, CharacterTokenizer
from numformer.generation import beam_search_prompts, choose_token, generate
from numformer.models import Decoder, DecoderConfig
from numformer.specifications import PAIRS
from numformer.training import Trainer, TrainingConfig
from numformer.verify.registry import LAYERS, LOSSES


@pytest.fixture(params=["numpy", "numba"])
def version(request):
    backend.use(request.param)
    yield request.param
    backend.use("numba")


def underflows(case, dtype, factor):
    """What a case raises at inputs, parameters and gradients times a factor."""
    layer, options = case.layer(dtype), case.options if callable(case.options) else dict
    inputs = [x * dtype(factor) if x.dtype.kind == "f" else x for x in case.inputs(dtype)]
    for parameter in getattr(layer, "parameters", list)():
        parameter.data *= dtype(min(factor, 1))
    try:
        with np.errstate(all="raise"):
            y, saved = layer.forward(*inputs, **options())
            layer.backward(np.full_like(y, factor), saved)
    except FloatingPointError as error:
        return f"{case.name}: {error}"
    except ValueError:                               # such as boxes that end before they begin
        return None


@pytest.mark.parametrize("cases, dtype", [
    (PAIRS, np.float32), (LAYERS, np.float32), (LOSSES, np.float64)])
@pytest.mark.parametrize("factor", every(2, ["tiny", 30.0]))
def test_no_case_raises_for_underflow(cases, dtype, factor, version):
    """Products of tiny numbers underflow; scores of 30 times 30 are hundreds of nats apart."""
    factor = {np.float32: 1e-25, np.float64: 1e-170}[dtype] if factor == "tiny" else factor
    found = [underflows(case, dtype, factor) for case in cases]
    assert [error for error in found if error] == []


def test_scores_far_apart():
    with np.errstate(all="raise"):
        assert F.softmax(np.array([0.0, 800.0]))[0].tolist() == [0, 1]
        assert F.silu(np.array([-110.0], np.float32))[0] == 0
        loss, saved = F.cross_entropy(np.array([[0.0, 800.0]]), np.array([1]))
        assert loss == 0 and not F.cross_entropy_backward(1.0, saved).any()
        with pytest.raises(FloatingPointError, match="overflow"):
            F.relu_squared(np.array([1e200]))


def test_training_and_sampling(version):
    text = "to be or not to be " * 20
    tokenizer = CharacterTokenizer("".join(sorted(set(text))))
    ids = tokenizer.encode(text)
    model = Decoder(DecoderConfig(vocab_size=len(tokenizer), context_length=8, n_layers=1,
                                  n_heads=2, d_model=8), np.random.default_rng(0))
    trainer = Trainer(model, BlockStream(ids, 8, 4, seed=0), [], TrainingConfig(steps=2))
    model.parameters()[0].data *= np.float32(1e-30)
    with np.errstate(all="raise"):
        trainer.train_step()
        trainer.train_step()
        assert len(list(generate(model, ids[:3], 4, np.random.default_rng(0), 0.01))) == 4
        beam_search_prompts(model, [ids[:3]], 0, beams=2, max_tokens=3)
        assert choose_token(np.array([0.0, 800.0]), np.random.default_rng(0), 0.5) == 1
