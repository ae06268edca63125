"""Batches in a journal file: what a client writes into a message is never taken for one."""

import pytest

from warren.store.batch import (
    BATCH_HEADER,
    FILE_HEADER,
    MARK,
    FileHeader,
    encode_batch_header,
    scan_file,
    sum_blocks,
)


def batch(mark: int, number: int, lsn: int, payload: bytes) -> bytes:
    sums = sum_blocks((payload,))
    header = encode_batch_header(
        mark=mark, number=number, lsn=lsn, chain=0, size=len(payload), sums=sums
    )
    return header + payload


@pytest.mark.parametrize(("guess", "taken"), [(MARK, 0), (77, 1)])
def test_a_batch_within_a_torn_one_needs_the_mark_of_the_file(guess: int, taken: int) -> None:
    # A client that knows every number, and where its octets will stand.
    inner = batch(guess, 2, 1 + BATCH_HEADER + 10, b"forged")
    outer = batch(77, 1, 1, b"x" * 10 + inner + b"y" * 100)
    data = FileHeader(5, 1, 0, 77).encode() + outer[:-1]
    found = scan_file(data, 5)
    assert len(found.batches) == taken
    assert (found.torn == len(data) - FILE_HEADER) == (not taken)


def test_a_block_has_the_same_checksum_however_it_is_cut() -> None:
    payload = bytes(range(256)) * 700
    whole = sum_blocks((payload,))
    assert len(whole) == 4 * 3
    for size in (1000, 65536, 70000, 131072):
        parts = [payload[at : at + size] for at in range(0, len(payload), size)]
        assert sum_blocks(parts) == whole
    assert sum_blocks(()) == b""
