"""How attention weights come about, and what a misprint of their equation costs."""

from numformer.experiments.attention.slips import EXPERIMENT as SLIPS

EXPERIMENTS = {"slips": SLIPS}
from numformer.experiments.attention.attention_weights import ATTENTION_WEIGHTS
EXPERIMENTS = {
    "attention-weights": ATTENTION_WEIGHTS,
}
