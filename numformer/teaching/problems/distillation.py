"""Problems on distillation: what a student learns from a teacher."""

from numformer import functional as F
from numformer.teaching.problems.problem import FunctionProblem, sizes


def predictions(**options):
    def make(rng):
        N, V = sizes(rng, 2)
        s, t = 2 * rng.standard_normal((2, N + 1, V + 1))
        return {"logits": s, "teacher_logits": t}, options
    return make


def features(rng):
    B, T, C = sizes(rng, 3)
    x, teacher = rng.standard_normal((2, B, T, C))
    return {"x": x, "teacher": teacher}, {}


PROBLEMS = {
    "distillation_loss": FunctionProblem(
        F.distillation_loss, F.distillation_loss_backward, ("logits",), {
            "plain": predictions(), "temperature=3": predictions(temperature=3.0)}),
    "imitation_loss": FunctionProblem(
        F.imitation_loss, F.imitation_loss_backward, ("x",), {"plain": features}),
}
