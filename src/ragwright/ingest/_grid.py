"""A table's grid while its cells are placed, merged ones repeated in every place they cover."""

from __future__ import annotations

_MOST_SPANNED = 200_000


class Grid:
    """Rows of cells by column.

    A few bytes can declare cells that cover millions of places. Places made by spans are counted
    per table; past 200,000 a cell is written once, where it begins.
    """

    def __init__(self) -> None:
        self._rows: list[dict[int, str]] = []
        self._spread = 0

    def free(self, row: int, column: int) -> int:
        """Find the first column from ``column`` on that no earlier cell covers."""
        if row < len(self._rows):
            while column in self._rows[row]:
                column += 1
        return column

    def put(self, row: int, column: int, text: str, *, down: int = 1, across: int = 1) -> None:
        """Write a cell to all places it covers, from ``row`` and ``column`` (from 0) on."""
        places = down * across
        if places > 1:
            if self._spread + places > _MOST_SPANNED:
                down = across = 1
            else:
                self._spread += places
        while len(self._rows) < row + down:
            self._rows.append({})
        for cells in self._rows[row : row + down]:
            for place in range(column, column + across):
                cells.setdefault(place, text)

    def rows(self, height: int) -> list[list[str]]:
        """Return the first ``height`` rows, with empty cells in gaps."""
        rows = [
            [cells.get(c, "") for c in range(max(cells, default=-1) + 1)]
            for cells in self._rows[:height]
        ]
        return rows + [[] for _ in range(height - len(rows))]
