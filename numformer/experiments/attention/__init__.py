"""How attention weights come about, and what a misprint of their equation costs."""

from numformer.experiments.attention.attention_weights import ATTENTION_WEIGHTS
from numformer.experiments.attention.slips import EXPERIMENT as SLIPS

EXPERIMENTS = {"attention-weights": ATTENTION_WEIGHTS, "slips": SLIPS}
