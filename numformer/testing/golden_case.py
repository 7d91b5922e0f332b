"""One case of golden vectors."""

from dataclasses import dataclass, field


@dataclass
class GoldenCase:
    """One case of a file of golden vectors.

    Parameters
    ----------
    name, level : str
        The function and the level of its problem; or the name of a layer or model, as `numformer
        audit` prints it, or of an optimizer.
    arguments : dict
        Arrays and scalars by name, in the order of the function, or of the inputs of a forward. Of
        an optimizer "gradients.0", ..., (steps, ...) for each parameter, and "learning_rates".
    options : dict
        Keyword arguments; of an optimizer its settings.
    y : ndarray
        The result; None for an optimizer.
    dy : ndarray
        A gradient of y.
    gradients : dict
        The gradients of arguments and parameters for this dy: "dx" and so on.
    kind : "function", "layer", "model" or "optimizer"
    parameters : dict
        The weights of a layer or model by name; of an optimizer the arrays that it begins with.
    results : dict
        Of an optimizer "after.0", ..., (steps, ...): each parameter after each step.
    text : str
        The layer or model with its settings.
    """

    name: str
    level: str
    arguments: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)
    y: object = None
    dy: object = None
    gradients: dict = field(default_factory=dict)
    kind: str = "function"
    parameters: dict = field(default_factory=dict)
    results: dict = field(default_factory=dict)
    text: str = ""
