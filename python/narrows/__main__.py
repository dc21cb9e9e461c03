"""`python -m narrows` is `narrows`."""

import sys

from narrows.cli import main

sys.exit(main())
