"""`python -m warren.management`: how the node starts the process."""

import sys

from warren.management.main import main

if __name__ == "__main__":
    main(sys.argv[1])
