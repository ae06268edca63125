"""`python -m warren.cli` is the command line."""

import sys

from warren.cli.main import main

sys.exit(main())
