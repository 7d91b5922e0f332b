"""Pre-training, and what it passes on to the next training: fine-tuning, other texts."""

from numformer.experiments.transfer import (
    domain_adaptation, roberta_tables, second_language, three_families)

EXPERIMENTS = {"domain-adaptation": domain_adaptation.ADAPTATION_EXPERIMENT,
               "roberta-tables": roberta_tables.ROBERTA_EXPERIMENT,
               "second-language": second_language.LANGUAGE_EXPERIMENT,
               "three-families": three_families.FAMILIES_EXPERIMENT}
