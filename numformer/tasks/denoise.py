"""The task of BART: write documents anew of which tokens or spans were hidden, or whose sentences were mixed."""

import numpy as np

from numformer.tasks.documents import DocumentTask
from numformer.training import hide_tokens, infill, permute_sentences

MEASURED = 200                                                        # held-out documents that are restored
RATE = 0.3                                                            # of tokens that are hidden
NOISES = {                                                            # each (sentences, mask, rng) -> source
    "masked": lambda sentences, mask, rng: hide_tokens(np.concatenate(sentences), mask, rng, RATE),
    "infilled": lambda sentences, mask, rng: infill(np.concatenate(sentences), mask, rng, RATE),
    "permuted": lambda sentences, mask, rng: np.concatenate(permute_sentences(sentences, rng)),
}


class DenoiseTask(DocumentTask):
    """Write all of a document after one of three noises: three tenths of its tokens masked, or infilled, or its sentences permuted.

    BART's own last recipe permutes and infills at once. With two sentences nobody could tell then whether an infilled document was
    permuted, too; here a mask says that it was not.
    """

    name = "denoise"
    marks = ("[MASK]",)
    misread = 0.15                                                    # or else a wrong guess misleads the model for the rest of a document

    def pair(self, sentences, marks, rng):
        noise = NOISES[rng.choice(list(NOISES))]
        return noise(sentences, *marks, rng), np.concatenate(sentences)

    def measure(self, model, tokenizer, material):
        """How like the documents are to what the model restored after each noise, and to the copied source without its masks."""
        measured, (mask,) = {}, self.mark_ids(tokenizer)
        documents = [[tokenizer.encode(sentence) for sentence in document] for document in material.held_out[:MEASURED]]
        targets = [np.concatenate(sentences) for sentences in documents]
        for name, noise in NOISES.items():
            sources = [noise(sentences, mask, np.random.default_rng(number)) for number, sentences in enumerate(documents)]
            measured[f"restored_{name}"] = mean_likeness(self.replies(model, tokenizer, sources), targets)
            measured[f"copied_{name}"] = mean_likeness([source[source != mask] for source in sources], targets)
        return measured


def mean_likeness(texts, targets):
    """The mean `likeness` of ids to what they should be."""
    return float(np.mean([likeness(ids, target) for ids, target in zip(texts, targets)]))


def likeness(one, other):
    r"""How much of two sequences of ids is alike.

    .. math:: 1 - \frac{\text{edits}}{\max(\text{lengths})}

    where the edits (insert, delete, replace) are the fewest that make one of the other.

    Examples
    --------
    >>> likeness(np.array([1, 2, 3, 4]), np.array([1, 3, 4])), likeness(np.array([1, 2]), np.array([3, 4]))
    (0.75, 0.0)
    """
    place = np.arange(len(other) + 1)
    edits = place                                                     # from nothing to each beginning of the other
    for count, token in enumerate(one, 1):
        row = np.minimum(edits + 1, np.append(count, edits[:-1] + (other != token)))      # delete; replace, or keep
        edits = np.minimum.accumulate(row - place) + place            # insert any number
    return 1 - int(edits[-1]) / max(len(one), len(other), 1)
