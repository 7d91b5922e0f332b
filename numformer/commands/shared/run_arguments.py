"""Arguments of the verbs that read a run."""

from numformer.functional.quantization import SMALLER_WEIGHTS


def add_run_arguments(parser, nargs=None):
    """Add RUN, which may be left out if `nargs` is "?", and --best."""
    parser.add_argument("run", metavar="RUN", nargs=nargs, help="folder of a run")
    parser.add_argument("--best", action="store_true", help="use the checkpoint with the lowest "
                        "validation loss instead of the last")


def add_weights_argument(parser, why):
    """Add --weights."""
    parser.add_argument("--weights", choices=["float32", *SMALLER_WEIGHTS], default="float32",
                        help=f"{why}; float32 stands for weights as they are (default: float32)")


def smaller_weights(arguments):
    """What --weights says: "bfloat16", "int8", or None."""
    return None if arguments.weights == "float32" else arguments.weights


def add_text_argument(parser):
    """Add --text, the input of the model."""
    parser.add_argument("--text", default=None, help="input of the model (default: held-out or "
                        "generated text); for vit the number of a test image")
