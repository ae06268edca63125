"""`python -m warren.management`: how the node starts the process."""

from warren.management.main import main

if __name__ == "__main__":
    main()
