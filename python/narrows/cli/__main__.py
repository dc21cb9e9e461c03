"""`python -m narrows.cli` is `narrows`."""

import sys

from narrows.cli import main

sys.exit(main())
