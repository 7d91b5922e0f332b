"""What one training passes on to the next: distillation, fine-tuning, other texts."""

from numformer.experiments.transfer import (
    domain_adaptation, second_language, three_families)

EXPERIMENTS = {"domain-adaptation": domain_adaptation.ADAPTATION_EXPERIMENT,
               "second-language": second_language.LANGUAGE_EXPERIMENT,
               "three-families": three_families.FAMILIES_EXPERIMENT}
