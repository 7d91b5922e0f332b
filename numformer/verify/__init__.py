"""The oracle for layers: is this gradient right? For registered layers, and for your own."""

from numformer.verify.gradcheck import LAYER_BOUND, MODEL_BOUND, gradcheck
from numformer.verify.hessian import hessian_symmetry
from numformer.verify.jacobians import (
    ComplexUnsafe, backward_jacobian, central_difference_jacobian, complex_step_jacobian)
from numformer.verify.report import Report, Row
from numformer.verify.step_sizes import step_errors

__all__ = [
    "ComplexUnsafe", "LAYER_BOUND", "MODEL_BOUND", "Report", "Row", "backward_jacobian",
    "central_difference_jacobian", "complex_step_jacobian", "gradcheck", "hessian_symmetry",
    "step_errors",
]
