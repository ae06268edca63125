"""What the proofs share: a client that remembers, its books, and the broker under proof."""
