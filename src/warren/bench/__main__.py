"""``python -m warren.bench`` is ``warren bench``."""

import sys

from warren.bench.main import main

sys.exit(main(sys.argv[1:]))
