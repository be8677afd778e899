"""Replacing files of a project all at once: a process that is killed half-way leaves no mixture.

New files are made in a folder beside those that they replace. A journal there, written once all of
them are complete, says what is moved. Each move is a rename, and none is done twice: whoever opens
the project next goes on where the killed process was.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..core import StoreBusyError, StoreDamagedError, replace_text
from ._kept_files import file_error
from ._locks import FileLock

SWITCHING = ".restore"
"""Folder in a project with new files, their lock and their journal."""

LOGS = ("-wal", "-shm", "-journal")
"""Ends of the names of SQLite's logs, which belong to one state of their file."""

_FILES = "files"
_JOURNAL = "journal.json"
_LOCK = "lock"


class FileSwitch:
    """New files for a project.

    Args:
        root: The project.

    Attributes:
        files: Folder for the new files, by their names in the project.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._place = root / SWITCHING
        self.files = self._place / _FILES

    def switch(self, names: Sequence[str], before: str) -> None:
        """Put new files in place, all or none.

        Args:
            names: Files and folders among the new ones that are moved as a whole.
            before: Folder in the project that what they replace is moved to; empty: nothing is.

        Raises:
            OSError: One cannot be moved; everything is as it was.
        """
        self._note(names, before, undo=False)
        self._carry_out()

    def _note(self, names: Sequence[str], before: str, *, undo: bool) -> None:
        journal = {"names": list(names), "before": before, "undo": undo}
        replace_text(self._place / _JOURNAL, json.dumps(journal, ensure_ascii=False), private=True)

    def _carry_out(self) -> None:
        """Do what the journal says, or what is left of it."""
        journal = json.loads((self._place / _JOURNAL).read_text("utf-8"))
        names, before = journal["names"], journal["before"]
        kept = self._root / before if before else None
        fault: OSError | None = None
        try:
            for name in () if journal["undo"] else names:
                self._put(name, kept)
        except OSError as error:
            fault = error
            self._note(names, before, undo=True)
        if fault is not None or journal["undo"]:
            for name in reversed(names):
                self._take_back(name, kept)
            if kept is not None:
                for folder, _, _ in os.walk(kept, topdown=False):
                    Path(folder).rmdir()
        (self._place / _JOURNAL).unlink()
        if fault is not None:
            raise fault

    def _put(self, name: str, kept: Path | None) -> None:
        new = self.files / name
        if not os.path.lexists(new):  # in place already
            return
        for there, aside in self._pairs(name, kept):
            if os.path.lexists(there):
                aside.parent.mkdir(parents=True, exist_ok=True)
                there.rename(aside)
        (self._root / name).parent.mkdir(parents=True, exist_ok=True)
        new.rename(self._root / name)

    def _take_back(self, name: str, kept: Path | None) -> None:
        new, place = self.files / name, self._root / name
        if not os.path.lexists(new) and os.path.lexists(place):
            new.parent.mkdir(parents=True, exist_ok=True)
            place.rename(new)
        for there, aside in self._pairs(name, kept):
            if os.path.lexists(aside):
                aside.rename(there)

    def _pairs(self, name: str, kept: Path | None) -> Iterator[tuple[Path, Path]]:
        """What a name replaces, its logs included, and where that is kept."""
        if kept is None:
            return
        for end in ("", *LOGS):
            yield Path(f"{self._root / name}{end}"), Path(f"{kept / name}{end}")


@contextmanager
def file_switch(root: Path) -> Iterator[FileSwitch]:
    """A place for new files, which is removed at the end; others wait or are refused.

    Raises:
        StoreBusyError: Another process replaces files of the project.
        OSError: It cannot be made.
    """
    place = root / SWITCHING
    try:
        place.mkdir()
    except FileExistsError:
        raise _under_way(root) from None
    switch = FileSwitch(root)
    with FileLock(place / _LOCK, "restore"):
        switch.files.mkdir()
        try:
            yield switch
        finally:
            _clear(place)


def finish_switch(root: Path) -> None:
    """Finish what a process that was killed has begun; nothing is done where none was.

    Raises:
        StoreBusyError: A process is replacing the files.
        StoreDamagedError: The journal cannot be read.
        StoreError: A file cannot be moved; what was there before is in its place again.
    """
    place = root / SWITCHING
    if not place.is_dir():
        return
    lock = FileLock(place / _LOCK, "restore")
    if not lock.acquire():
        if (place / _JOURNAL).exists():
            raise _under_way(root)
        return  # the project is as it was, as long as there is no journal
    try:
        if (place / _JOURNAL).exists():
            FileSwitch(root)._carry_out()
    except (ValueError, KeyError, TypeError) as error:
        raise StoreDamagedError(
            "the journal of a restore that was killed cannot be read",
            where=str(place / _JOURNAL),
            hint="restore the backup again into a new folder",
        ) from error
    except OSError as error:
        raise file_error(error, root) from error
    finally:
        _clear(place)
        lock.release()


def _clear(place: Path) -> None:
    """Remove the folder, unless its journal says that something is left to do."""
    if not (place / _JOURNAL).exists():
        shutil.rmtree(place, ignore_errors=True)


def _under_way(root: Path) -> StoreBusyError:
    return StoreBusyError(
        "a restore is replacing the files of this project",
        where=str(root),
        hint="wait until it has ended, then run the command again",
    )
