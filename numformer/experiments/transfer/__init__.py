"""What one training passes on to the next: distillation, fine-tuning, other texts."""

from numformer.experiments.transfer import domain_adaptation, three_families

EXPERIMENTS = {"domain-adaptation": domain_adaptation.ADAPTATION_EXPERIMENT,
               "three-families": three_families.FAMILIES_EXPERIMENT}
