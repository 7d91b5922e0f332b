"""What one training passes on to the next: distillation, fine-tuning, other texts."""

EXPERIMENTS = {}
