"""Hypothesis strategies for field values of every type the wire has."""

from hypothesis import strategies as st

from warren.protocol.value import Decimal_, Field


def integers(letter: str, bits: int, *, signed: bool) -> st.SearchStrategy[Field]:
    low = -(1 << bits - 1) if signed else 0
    high = (1 << bits - 1) - 1 if signed else (1 << bits) - 1
    return st.integers(low, high).map(lambda number: Field(ord(letter), number))


KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)

SCALARS = st.one_of(
    integers("b", 8, signed=True),
    integers("B", 8, signed=False),
    integers("s", 16, signed=True),
    integers("u", 16, signed=False),
    integers("I", 32, signed=True),
    integers("i", 32, signed=False),
    integers("l", 64, signed=True),
    integers("T", 64, signed=False),
    st.binary(max_size=30).map(lambda raw: Field(ord("S"), raw)),
    st.binary(max_size=30).map(lambda raw: Field(ord("x"), raw)),
    st.floats(allow_nan=False, width=32).map(lambda number: Field(ord("f"), number)),
    st.floats(allow_nan=False).map(lambda number: Field(ord("d"), number)),
    st.booleans().map(lambda value: Field(ord("t"), value)),
    st.just(Field(ord("V"), None)),
    st.builds(Decimal_, st.integers(0, 255), st.integers(0, 2**32 - 1)).map(
        lambda value: Field(ord("D"), value)
    ),
)

FIELDS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda entries: Field(ord("A"), entries)),
        st.dictionaries(KEYS, inner, max_size=4).map(lambda entries: Field(ord("F"), entries)),
    ),
    max_leaves=12,
)

TABLES = st.dictionaries(KEYS, FIELDS, max_size=6)
