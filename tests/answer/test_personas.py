"""Personas from YAML: shipped, loaded, refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.answer import load_persona, load_personas, load_shipped_personas, pick_persona
from ragwright.core import PromptError


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_two_personas_are_shipped_and_differ_as_promised() -> None:
    personas = load_shipped_personas()
    assert set(personas) == {"engineer", "marketing"}
    assert personas["engineer"].answer_length != personas["marketing"].answer_length
    assert personas["engineer"].audience != personas["marketing"].audience


def test_a_persona_file_is_read_and_named_after_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, "support.yaml", "audience: the help desk\n")
    persona = load_persona(path)
    assert (persona.name, persona.audience) == ("support", "the help desk")


def test_a_folder_of_personas_is_read_by_name(tmp_path: Path) -> None:
    write(tmp_path, "b.yaml", "name: beta")
    write(tmp_path, "a.yml", "name: alpha")
    write(tmp_path, "notes.txt", "no persona")
    assert list(load_personas(tmp_path)) == ["alpha", "beta"]


def test_two_personas_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "name: same")
    write(tmp_path, "b.yaml", "name: same")
    with pytest.raises(PromptError, match="same"):
        load_personas(tmp_path)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("name: x\naudiense: y\n", 2, "did you mean 'audience'"),
        ("name: x\naudience: [a, b]\n", 2, "must be text"),
        ("name: x\naudience:\n\t- a\n", 3, "tab"),
        ("name: x\naudience: 'open\n", 0, "end of stream"),
        ("name: x\nname: y\n", 2, "twice"),
        ("- a\n- b\n", 0, "keys and values"),
        ("", 0, "keys and values"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    path = write(tmp_path, "p.yaml", text)
    with pytest.raises(PromptError) as caught:
        load_persona(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    if line:
        assert f"{path}:{line}" in str(caught.value)


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptError):
        load_persona(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PromptError):
        load_persona(tmp_path / "b.yaml")


def test_an_unknown_persona_names_the_nearest() -> None:
    with pytest.raises(PromptError, match="engineer"):
        pick_persona("enginer", load_shipped_personas())
    assert pick_persona("", load_shipped_personas()).audience == ""
