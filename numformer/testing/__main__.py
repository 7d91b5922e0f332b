"""Golden vectors in a file: ``python -m numformer.testing OUT.npz [NAME ...]``."""

import argparse
import sys

from numformer.testing.golden import read_golden, write_golden


def main(words=None):
    """Write the file that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m numformer.testing", description=__doc__)
    parser.add_argument("out", metavar="OUT.npz")
    parser.add_argument(
        "names", metavar="NAME", nargs="*", help="functions, layer:NAME, model:NAME or "
        "optimizer:NAME, with the defaults of numformer and max_norm=2; or functions, layers, "
        "models, optimizers (default: all of these)")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    arguments = parser.parse_args(words)
    try:
        left_out = write_golden(
            arguments.out, arguments.names or None, arguments.seed, arguments.dtype)
        for name, reason in left_out.items():
            print(f"left out: {name}: {reason}")
        print(f"{len(read_golden(arguments.out))} cases in {arguments.out}, "
              f"{len(left_out)} left out")
    except (OSError, ValueError) as error:
        sys.exit(f"numformer.testing: {error}")


if __name__ == "__main__":
    main()
