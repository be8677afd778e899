"""`python -m ragwright`."""

from __future__ import annotations

import sys
from pathlib import Path

# `-m` puts the present folder first on the path, where its files would shadow installed modules.
HERE = Path.cwd()
if sys.path[:1] == [str(HERE)] and HERE not in Path(__file__).parents:
    del sys.path[0]

from .app import main  # noqa: E402

if __name__ == "__main__":
    main()
