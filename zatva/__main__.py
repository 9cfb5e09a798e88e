"""`python -m zatva` runs the command `zatva`."""

import sys

from zatva.cli import main

sys.exit(main())
