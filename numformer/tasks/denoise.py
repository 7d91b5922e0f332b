"""The task of BART: write documents anew of which tokens or spans were hidden, or whose sentences were mixed."""

import numpy as np

from numformer.tasks.documents import MEASURED, DocumentTask, mean_likeness
from numformer.training import hide_tokens, infill, permute_sentences

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
