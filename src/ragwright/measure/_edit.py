"""Edit distance and longest common subsequence by bit vectors in integers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Least insertions, deletions and substitutions that turn one sequence into the other.

    Myers 1999 in the form of Hyyrö 2003, with a column of the table in one integer.
    """
    if not first:
        return len(second)
    places = _position_bits(first)
    full, last, score = (1 << len(first)) - 1, 1 << (len(first) - 1), len(first)
    up, down = full, 0
    for item in second:
        equal = places.get(item, 0)
        vertical = equal | down
        horizontal = (((equal & up) + up) ^ up) | equal
        more = down | (full & ~(horizontal | up))
        less = up & horizontal
        score += bool(more & last) - bool(less & last)
        more, less = (more << 1) | 1, less << 1
        up = full & (less | ~(vertical | more))
        down = full & more & vertical
    return score


def common_subsequence(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence (Hyyrö 2004)."""
    places = _position_bits(first)
    full = (1 << len(first)) - 1
    row = full
    for item in second:
        matches = row & places.get(item, 0)
        row = ((row + matches) | (row - matches)) & full
    return len(first) - row.bit_count()


def _position_bits(items: Sequence[Hashable]) -> dict[Hashable, int]:
    """Item -> integer whose bits are its positions."""
    bits: dict[Hashable, int] = {}
    for place, item in enumerate(items):
        bits[item] = bits.get(item, 0) | 1 << place
    return bits
