"""Writes the generator of a persona into its file; nothing else in it changes."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..answer import load_persona, load_shipped_personas
from ..core import Persona, PromptError, replace_text
from ._folder import ProjectFolder

_MODEL = re.compile(
    r"^(model[ \t]*:)[ \t]*(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s#][^\n]*?)?([ \t]+\#[^\n]*|[ \t]*)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class PersonaChange:
    """A change of a persona's file.

    Attributes:
        path: The file.
        before: Its text now, empty where there is none yet.
        after: Its text with the new model.
    """

    path: Path
    before: str
    after: str

    @property
    def diff(self) -> str:
        """The change as a unified diff; empty where there is none."""
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            str(self.path),
            str(self.path),
        )
        return "".join(lines)


def persona_change(folder: ProjectFolder, name: str, model: str) -> PersonaChange:
    """Return the change that has a persona answered by a model; nothing is written.

    A shipped persona gets a file of its own in the project. Comments stay where they are.

    Raises:
        PromptError: The persona does not exist, or its file cannot be changed line by line.
    """
    path = _file_of(folder, name)
    if path is None:
        shipped = load_shipped_personas().get(name)
        if shipped is None:
            raise PromptError(f"unknown persona {name!r}", where=str(folder.personas))
        target = folder.personas / f"{name}.yaml"
        return PersonaChange(target, "", _persona_yaml(replace(shipped, model=model)))
    before = path.read_text("utf-8")
    line = json.dumps(model, ensure_ascii=False)
    after, changed = _MODEL.subn(lambda m: f"{m[1]} {line}{m[2]}", before, count=1)
    if not changed:
        after = f"{before if before.endswith(chr(10)) or not before else before + chr(10)}"
        after += f"model: {line}\n"
    change = PersonaChange(path, before, after)
    _check_new_text(change, replace(load_persona(path), model=model))
    return change


def write_persona(change: PersonaChange) -> Path | None:
    """Write a change; what was there is kept beside it, under the path returned."""
    if change.before == change.after:
        return None
    backup: Path | None = None
    if change.before:
        backup = _free_path(change.path)
        replace_text(backup, change.before, fresh=True)
    change.path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(change.path, change.after)
    return backup


def _file_of(folder: ProjectFolder, name: str) -> Path | None:
    if not folder.personas.is_dir():
        return None
    paths = [p for p in folder.personas.glob("*.y*ml") if p.suffix in {".yaml", ".yml"}]
    return next((path for path in sorted(paths) if load_persona(path).name == name), None)


def _check_new_text(change: PersonaChange, wanted: Persona) -> None:
    """Hold the new text against what it must say, before a byte is written.

    Raises:
        PromptError: It says something else.
    """
    trial = change.path.with_name(f".{change.path.name}.trial")
    try:
        trial.write_text(change.after, "utf-8")
        try:
            good = replace(load_persona(trial), name=wanted.name) == wanted
        except PromptError:
            good = False
    finally:
        trial.unlink(missing_ok=True)
    if not good:
        raise PromptError(
            "the file is not written line by line, so that a model cannot be put into it",
            where=str(change.path),
            hint=f"write it yourself: model: {json.dumps(wanted.model)}",
        )


def _free_path(path: Path) -> Path:
    """A name beside the file that nothing has: ``engineer.yaml.before``, ``…-2``."""
    number = 1
    while (
        path_beside := path.with_name(f"{path.name}.before{'' if number == 1 else f'-{number}'}")
    ).exists():
        number += 1
    return path_beside


def _persona_yaml(persona: Persona) -> str:
    fields = {key: value for key, value in asdict(persona).items() if value}
    return "".join(f"{k}: {json.dumps(v, ensure_ascii=False)}\n" for k, v in fields.items())
