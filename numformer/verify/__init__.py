"""The oracle: is this gradient right? For what is registered here, for a layer of your own, for a student's function."""

from numformer.verify.check import Verdict, check
from numformer.verify.gradcheck import LAYER, MODEL, Report, Row, gradcheck
from numformer.verify.hessian import hessian_symmetry
from numformer.verify.jacobians import (
    ComplexUnsafe, backward_jacobian, central_difference_jacobian, complex_step_jacobian, step_errors)

__all__ = ["ComplexUnsafe", "LAYER", "MODEL", "Report", "Row", "Verdict", "backward_jacobian", "central_difference_jacobian", "check",
           "complex_step_jacobian", "gradcheck", "hessian_symmetry", "step_errors"]
