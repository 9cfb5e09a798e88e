"""`python -m zatva` is the command `zatva`."""

import sys

from zatva.cli import main

sys.exit(main())
