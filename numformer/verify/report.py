"""What `gradcheck` found: a row for each tensor, the findings, and a verdict; as text, a table."""

from dataclasses import dataclass, field

from numformer.verify.errors import largest


@dataclass(frozen=True)
class Row:
    r"""The derivative of one tensor that is furthest from the reference.

    Parameters
    ----------
    tensor : str
        Name of the input or parameter.
    shape : tuple of int
        Its shape.
    output_index, index : tuple of int
        Index of the derivative in the Jacobian: in the output, and in the tensor.
    found, reference : float
        The derivative from the backward, and the reference (complex step or central difference).
    error : float
        :math:`|found - reference| / (|reference| + 0.01\, s)`, with s as in `gradcheck`;
        derivatives whose difference is explained by rounding errors are left out.
    """

    tensor: str
    shape: tuple
    output_index: tuple
    index: tuple
    found: float
    reference: float
    error: float


@dataclass
class Report:
    """The result of `gradcheck`; printed, a small table.

    Parameters
    ----------
    name : str
        Class of the layer.
    bound : float
        The largest error that passes.
    note : str
        How the bound came about, if it is not the usual one.
    method : str
        What the reference was computed with.
    rows : list of Row
        One for each tensor.
    findings : list of str
        Broken rules of the contract, in words.
    remarks : list of str
        What is right, but deserves care: a gradient that is a view of dy, a layout of arrays that
        is refused.
    seconds : float
        How long the check took.
    """

    name: str
    bound: float
    note: str = ""
    method: str = "complex step"
    rows: list = field(default_factory=list)
    findings: list = field(default_factory=list)
    remarks: list = field(default_factory=list)
    seconds: float = 0.0

    @property
    def worst(self):
        """The row with the largest error; None if nothing could be compared."""
        return max(self.rows, key=lambda row: largest([row.error]), default=None)

    @property
    def ok(self):
        """Whether every error is within the bound and no rule is broken."""
        return not self.findings and all(row.error <= self.bound for row in self.rows)

    def __str__(self):
        lines = [f"{self.name}: {'right' if self.ok else 'WRONG'}, by {self.method}, "
                 f"within {self.bound:.0e}{self.note}"]
        for row in self.rows:
            mark = "  " if row.error <= self.bound else "! "
            lines.append(f"{mark}{row.tensor} {row.shape}: worst error {row.error:.1e} at "
                         f"{row.index} for output {row.output_index}: found {row.found:.17g}, "
                         f"reference {row.reference:.17g}")
        lines += [f"! {finding}" for finding in self.findings]
        return "\n".join(lines + [f"  note: {remark}" for remark in self.remarks])
