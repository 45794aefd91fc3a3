"""`python3 -m bespoke.export_model`: the command bespoke-export, where no script is installed."""

import sys

from bespoke.command import main

if __name__ == "__main__":
    sys.exit(main())
