"""python -m numformer: the same as the command numformer."""

import sys

from numformer.cli import main

if __name__ == "__main__":
    sys.exit(main())
