"""Files that are replaced whole, or not at all."""

from __future__ import annotations

import os
import resource
import stat
import threading
from pathlib import Path

import pytest

from ragwright.core import replace_text, replacing


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_on_a_full_disk_the_old_file_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("as it was")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))  # writing fails as on a full disk
    try:
        with pytest.raises(OSError, match="large") as caught:
            replace_text(path, "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.filename == str(path)
    assert path.read_text() == "as it was"
    assert names(tmp_path) == ["rows.csv"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_block_that_fails_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with replacing(tmp_path / "new") as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == []


def test_modes_and_links_are_kept_and_private_files_are_private(tmp_path: Path) -> None:
    path = tmp_path / "a"
    replace_text(path, "1")
    (tmp_path / "plain").write_text("1")
    assert mode(path) == mode(tmp_path / "plain")
    path.chmod(0o640)
    replace_text(path, "2")
    assert (path.read_text(), mode(path)) == ("2", 0o640)
    replace_text(path, "3", private=True)
    assert mode(path) == 0o600
    (tmp_path / "link").symlink_to("a")
    replace_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert path.read_text() == "new"


def test_devices_and_pipes_are_written_as_they_are(tmp_path: Path) -> None:
    replace_text(Path(os.devnull), "nothing")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    replace_text(tmp_path / "pipe", "through")
    reader.join(10)
    assert read == ["through"]


def test_a_fresh_file_never_replaces_one(tmp_path: Path) -> None:
    replace_text(tmp_path / "a", "mine", fresh=True)
    with pytest.raises(FileExistsError):
        replace_text(tmp_path / "a", "yours", fresh=True)
    with pytest.raises(FileExistsError), replacing(tmp_path / "b", fresh=True):
        (tmp_path / "b").write_text("came first")
    assert (tmp_path / "a").read_text() == "mine"
    assert (tmp_path / "b").read_text() == "came first"
    assert names(tmp_path) == ["a", "b"]


def test_names_of_any_length_and_folders(tmp_path: Path) -> None:
    name = "é" * 127
    replace_text(tmp_path / name, "long")
    assert (tmp_path / name).read_text() == "long"
    with pytest.raises(IsADirectoryError):
        replace_text(tmp_path, "a folder")
    with pytest.raises(FileNotFoundError) as caught:
        replace_text(tmp_path / "no" / "folder", "x")
    assert caught.value.filename == str(tmp_path / "no" / "folder")
