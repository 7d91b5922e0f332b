"""Distillation: losses of a student, with the teacher as a constant."""

from numformer import functional as F
from numformer.verify.registry.cases import Pair, floats

PAIRS = [
    *(Pair(f"distillation loss{name}", F.distillation_loss, F.distillation_loss_backward, [(3, 4)],
           after=(2 * floats(3, 4),), options=options)
      for name, options in (("", {}), (", soft", dict(temperature=3.0)),
                            (", hard", dict(temperature=0.5)))),
    Pair("imitation loss", F.imitation_loss, F.imitation_loss_backward, [(2, 3, 4)],
         after=(floats(2, 3, 4) + 1,)),
]
