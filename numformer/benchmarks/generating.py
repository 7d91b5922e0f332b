"""Generation with a KV cache: tokens per second, compared with PyTorch and other programs.

Smaller weights are measured next to float32 ones, with what they cost: the loss of the untrained
model would say nothing, so `numformer eval --weights` has it, for a run.
"""

import time
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from numformer import backend
from numformer.benchmarks.cases import VOCABULARY, decoder, decoder_config, read_sizes
from numformer.benchmarks.side_by_side import in_turns, memory_side, quartiles
from numformer.generation import generate_batch

CASES = ("4x4x128:1", "6x6x384:1", "6x6x384:8")
PROMPT, CONTEXT, TOKENS = 8, 256, 64
BYTES = {None: 4, "bfloat16": 2, "int8": 1}          # of a weight


@dataclass(frozen=True)
class Case:
    """L layers, H heads and width C; a batch of B sequences."""

    name: str
    L: int
    H: int
    C: int
    B: int

    @classmethod
    def parse(cls, name):
        """Read "LxHxC:B".

        Examples
        --------
        >>> Case.parse("6x6x384:1")
        Case(name='6x6x384:1', L=6, H=6, C=384, B=1)
        """
        case = cls(name, *read_sizes(name, "xx:", "LAYERSxHEADSxWIDTH:SEQUENCES, for example "
                                     "6x6x384:1"))
        case.config()                                                # n_heads must divide the width
        return case

    def config(self):
        return decoder_config(self.L, self.H, self.C, CONTEXT)

    def model(self):
        return decoder(self.config())

    def prompts(self):
        return np.random.default_rng(1).integers(0, VOCABULARY, (self.B, PROMPT))

    def weight_bytes(self, weights=None):
        """Bytes of all weights that are read for a token."""
        return BYTES[weights] * (self.L * 12 * self.C ** 2 + VOCABULARY * self.C)


def clocks():
    """Wall time, and the CPU time of all threads: with one thread it holds on a busy machine."""
    return np.array([time.perf_counter(), time.process_time()])


def since(started):
    """The seconds of a token: {"token": of wall time, "cpu": of CPU time}."""
    return dict(zip(("token", "cpu"), ((clocks() - started) / TOKENS).tolist()))


def our_side(case, weights=None):
    """Generation from the prompts on; packing the weights is part of it."""
    model, prompts = case.model(), case.prompts()

    def side():
        rngs = [np.random.default_rng(k) for k in range(case.B)]
        started = clocks()
        for _ in generate_batch(model, list(prompts), TOKENS, rngs, weights=weights):
            pass
        return since(started)

    return side


def torch_side(case, weights=None):
    """The same decoder in PyTorch, with a cache and float32 weights always."""
    import torch

    from numformer.benchmarks.torch_decoder import torch_decoder

    torch.set_num_threads(backend.get_threads())
    model, prompts = torch_decoder(case.model()).eval(), torch.from_numpy(case.prompts())

    def side():
        torch.manual_seed(0)
        started = clocks()
        with torch.inference_mode():
            caches, ids, position = model.new_caches(case.B, CONTEXT), prompts, 0
            for _ in range(TOKENS):
                logits = model(ids, caches, position)[:, -1]
                position += ids.shape[1]
                ids = torch.multinomial(torch.softmax(logits, dim=-1), 1)
                ids[:, 0].tolist()                        # each token is needed at once, as in ours
        return since(started)

    return side


def transformers_side(case, weights=None):
    """Hugging Face's GPT-2 of the same size, with its cached `generate` and float32 weights."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(backend.get_threads())
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=case.C,
                                       n_layer=case.L, n_head=case.H, bos_token_id=None,
                                       eos_token_id=None)).eval()
    prompts = torch.from_numpy(case.prompts())

    def side():
        started = clocks()
        with torch.inference_mode():
            model.generate(prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=TOKENS,
                           min_new_tokens=TOKENS, do_sample=True, top_k=0, use_cache=True,
                           pad_token_id=0)
        return since(started)

    return side


def ctranslate2_side(case, weights=None):
    """CTranslate2 with the same weights: the most probable tokens, and no token ends a text."""
    from numformer.benchmarks.ctranslate2_decoder import new_generator

    generator = new_generator(case.model(), backend.get_threads(),
                              "int8" if weights == "int8" else "float32")
    prompts = [[str(i) for i in ids] for ids in case.prompts()]

    def side():
        started = clocks()
        generator.generate_batch(prompts, max_length=TOKENS, sampling_topk=1, end_token=[],
                                 include_prompt_in_result=False)      # so it is read in one call
        return since(started)

    return side


PEERS = {"torch": torch_side, "transformers": transformers_side, "ctranslate2": ctranslate2_side}


def peers_here():
    """The names of the peers that can run here."""
    found = {name: find_spec(name) is not None for name in PEERS}
    found["transformers"] = found["transformers"] and found["torch"]
    return [name for name in PEERS if found[name]]


def measure(case, seconds=20.0, weights=None):
    """The results of `numformer bench generate` for one case.

    Parameters
    ----------
    case : Case
    seconds : float
    weights : "bfloat16" or "int8", optional
        Smaller weights, measured in turns with float32 ones.

    Returns
    -------
    dict
        Tokens per second and sequence, and quartiles of milliseconds per token, for numformer ("")
        and its peers ("torch_", "transformers_", "ctranslate2_"; None where not installed), and the
        speedups over these ("times_"); the memory bandwidth measured in between, the tokens per
        second that it allows if each weight is read once per token, and the fraction of that which
        numformer reached. With `weights`, all of numformer's figures are of these, and
        `times_float32` is the speedup over float32 weights. CTranslate2 has int8 too; for
        "bfloat16" its weights are float32, as the others' always are.

    Raises
    ------
    ValueError
        If CTranslate2's logits differ from ours.
    """
    sides = {"ours": our_side(case, weights)}
    if weights is not None:
        sides["float32"] = our_side(case)
    sides.update({name: PEERS[name](case, weights) for name in peers_here()})
    found = in_turns({**sides, "memory": memory_side()}, seconds)
    rate = 1 / float(np.median(found["memory"]["byte"]))
    row = {"case": case.name, "threads": backend.get_threads(), "memory_gbytes": rate / 1e9,
           "allowed": rate / case.weight_bytes(weights), "weights": weights or "float32"}
    for name in ("ours", *PEERS, "float32"):
        prefix = "" if name == "ours" else f"{name}_"
        times = quartiles(found[name]["token"]) if name in found else None
        row[f"{prefix}tokens_per_second"] = times and 1 / times["median"]
        row[f"{prefix}token_ms"] = times and 1000 * times["median"]
        row[f"{prefix}cpu_ms"] = times and 1000 * float(np.median(found[name]["cpu"]))
        row[f"{prefix}quartiles_ms"] = times and [1000 * times["low"], 1000 * times["high"]]
    for theirs in (*PEERS, "float32"):
        row[f"times_{theirs}"] = (row[f"{theirs}_token_ms"] and row[f"{theirs}_token_ms"]
                                  / row["token_ms"])
    row["of_allowed"] = row["tokens_per_second"] / row["allowed"]
    return row
