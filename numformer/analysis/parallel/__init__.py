"""How the work of a training step is divided among machines: schedules of a pipeline."""
