"""Fine-tuned encoders in the verbs, from the published folder to the answer and back:
transformers, with the ids of its own tokenizer, is the witness."""

import json

import numpy as np
import pytest

from command import call, last_json
from marks import quick_among
from numformer.data import WordPieceTokenizer
from numformer.data.tokenizers.published import save_tokenizer
from published_models import FINE_TUNED, small
from test_published_models import TEXT, files_are_back, random_folder

torch = pytest.importorskip("torch", reason="the witness, PyTorch, is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")
KINDS = {"ForSequenceClassification": transformers.AutoModelForSequenceClassification,
         "ForTokenClassification": transformers.AutoModelForTokenClassification,
         "ForQuestionAnswering": transformers.AutoModelForQuestionAnswering}
SENTIMENT, _, ANSWERS = QUICK = (
    "distilbert-base-uncased-finetuned-sst-2-english",
    "bert-large-cased-finetuned-conll03-english",
    "bert-large-uncased-whole-word-masking-finetuned-squad")


def what_of(facts):
    return next(what for what in KINDS if facts["architectures"][0].endswith(what))


@pytest.fixture
def imported(tmp_path, capsys, monkeypatch):
    """A function: (theirs, their tokenizer, the folder) of a published config, with its run."""
    monkeypatch.chdir(tmp_path)

    def made(facts):
        tokenizer, folder = WordPieceTokenizer.of(TEXT, 40), tmp_path / "published"
        size = len(tokenizer) + 2
        large = {key: 0 for key, value in facts.items()     # ids beyond the small vocabulary
                 if key.endswith("_token_id") and type(value) is int and value >= size}
        large["num_hidden_layers"] = facts.get("global_attn_every_n_layers", 2)
        facts = small(facts, vocab_size=size, **large)
        theirs = random_folder(folder, KINDS[what_of(facts)], facts)
        save_tokenizer(tokenizer, folder)
        (folder / "tokenizer_config.json").write_text(json.dumps({
            "do_lower_case": True, "tokenizer_class": "BertTokenizer", "model_max_length": 62}))
        status, out, err = call(capsys, "import", folder, "--out", "run")
        unread = any(key in facts for key in ("language", "name"))
        assert status == 0 and bool(err) == unread and "sample run --prompt " in out
        return theirs, transformers.AutoTokenizer.from_pretrained(folder), folder
    return made


def answer(capsys, prompt):
    status, out, err = call(capsys, "sample", "run", "--prompt", prompt, "--json")
    assert (status, err) == (0, "")
    return last_json(out)["text"]


def inputs(reader, theirs, *texts):
    """What transformers' tokenizer gives its model, segments where the model has them."""
    given = dict(reader(*texts, return_tensors="pt"))
    if theirs.config.model_type != "bert":
        given.pop("token_type_ids", None)
    return given


@pytest.mark.parametrize("name", quick_among(FINE_TUNED, QUICK))
def test_from_the_folder_to_the_answer_and_back(name, imported, capsys, tmp_path):
    facts = FINE_TUNED[name]
    theirs, reader, folder = imported(facts)
    what, names = what_of(facts), theirs.config.id2label
    texts = ("the dog jumps", "the quick brown fox sleeps")
    pair = what == "ForQuestionAnswering" or len(names) == 1
    given = inputs(reader, theirs, *texts[:1 + pair])
    with torch.no_grad():
        out = theirs(**given)
    found = answer(capsys, " [SEP] ".join(texts[:1 + pair]))
    if what == "ForSequenceClassification":
        logits = out.logits[0].double()
        values = logits.softmax(-1) if len(logits) > 1 else logits
        if facts.get("problem_type") == "multi_label_classification":
            values = logits.sigmoid()
        order = torch.argsort(-logits)[:5].tolist()
        said = dict(one.rsplit(": ", 1) for one in found.split(", "))
        assert list(said) == [names[n] for n in order]
        np.testing.assert_allclose([float(x) for x in said.values()],
                                   values[order].numpy(), atol=6e-4)
    elif what == "ForTokenClassification":
        tokens = reader.convert_ids_to_tokens(given["input_ids"][0])[1:-1]
        labels = [names[n] for n in out.logits[0].argmax(-1).tolist()[1:-1]]
        expected = [f"{token}: {label}" for token, label in zip(tokens, labels) if label != "O"]
        assert found == (", ".join(expected) or "all O")
    else:
        first, last = len(reader(texts[0])["input_ids"]), given["input_ids"].shape[1] - 1
        scores = (out.start_logits[0, :, None] + out.end_logits[0]).triu().double()
        allowed = torch.ones_like(scores, dtype=bool).triu()
        allowed[:first], allowed[:, last:] = False, False
        start, end = divmod(int(torch.where(allowed, scores, -torch.inf).argmax()), len(scores))
        assert found == reader.decode(given["input_ids"][0, start:end + 1])
    status, _, err = call(capsys, "export", "run", "--out", "back")
    assert (status, err) == (0, "")
    files_are_back(folder, tmp_path / "back")
    again = KINDS[what].from_pretrained("back")
    assert type(again) is type(theirs)
    with torch.no_grad():
        for one, two in zip(again(**given).to_tuple(), out.to_tuple(), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("prompt, words", [
    ("the dog", "give a question and a text with [SEP] between"),
    ("the [SEP] dog [SEP] jumps", "a prompt has at most two texts, but 2 separators"),
    ("the [SEP] ", "a text of 0 tokens does not fit: this model reads 1 to"),
    ("the [SEP] " + "dog " * 80, "tokens does not fit: this model reads 1 to 64, special tokens"),
    (None, "an imported classifier has no texts of its own; give one with --prompt")])
def test_prompts_that_are_no_question_with_a_text(prompt, words, imported, capsys):
    imported(FINE_TUNED[ANSWERS])
    more = () if prompt is None else ("--prompt", prompt)
    status, _, err = call(capsys, "sample", "run", *more)
    assert status != 0 and words in err and err.count("\n") == 1


def test_a_classifier_in_other_verbs(imported, capsys):
    imported(FINE_TUNED[SENTIMENT])
    assert call(capsys, "count", "run")[0] == 0
    status, out, err = call(capsys, "plot", "attention", "run", "--text", "the dog jumps")
    assert status == 0 and out, err
    for verb, words in (("eval", "no texts to be measured on"), ("chat", "holds no conversation")):
        status, _, err = call(capsys, verb, "run")
        assert status != 0 and words in err and err.count("\n") == 1
