"""Personas are data: one YAML file each, in the project or shipped with the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ..core import Mapped, Persona, PromptError, near, read_mapping, shipped_mapping

_SHIPPED = ("engineer", "marketing")


def load_persona(path: str | Path) -> Persona:
    """The persona of a YAML file; its name is the file's if no ``name`` is given.

    Raises:
        PromptError: An unknown key (the nearest is named), a value of the wrong kind, or not YAML;
            with file and line.
    """
    return _read_persona(read_mapping(Path(path)), Path(path).stem)


def load_personas(folder: str | Path) -> Mapping[str, Persona]:
    """Personas of all YAML files of a folder by name, in order of their names.

    Raises:
        PromptError: A file is wrong (see :func:`load_persona`), or two have the same name.
    """
    by_name: dict[str, tuple[Persona, Path]] = {}
    paths = [p for p in Path(folder).glob("*.y*ml") if p.suffix in {".yaml", ".yml"}]
    for path in sorted(paths):
        persona = load_persona(path)
        if persona.name in by_name:
            raise PromptError(
                f"two personas are called {persona.name!r}",
                where=str(path),
                hint=f"the other is {by_name[persona.name][1]}; rename one",
            )
        by_name[persona.name] = persona, path
    return {name: by_name[name][0] for name in sorted(by_name)}


def shipped_personas() -> Mapping[str, Persona]:
    """The personas that come with the package, by name."""
    return {
        name: _read_persona(shipped_mapping("answer", f"personas/{name}.yaml"), name)
        for name in _SHIPPED
    }


def pick_persona(name: str, personas: Mapping[str, Persona]) -> Persona:
    """The persona with a name; a neutral one without instructions for the empty name.

    Raises:
        PromptError: No such persona; the nearest is named.
    """
    if not name:
        return Persona("")
    if name not in personas:
        raise PromptError(f"unknown persona {name!r}", hint=near(name, personas))
    return personas[name]


_CHOICES = {"first": ("", "definition", "procedure"), "layout": ("lists", "prose")}
_LISTS = ("sections", "documents")


def _read_persona(data: Mapped, name: str) -> Persona:
    data.check_keys([f.name for f in fields(Persona)], "a persona")
    neutral = Persona(data.text("name") or name)
    settings: dict[str, Any] = {}
    for key in data.values:
        if key in _LISTS:
            settings[key] = _name_list(data, key)
        elif key == "max_words":
            settings[key] = _word_limit(data, key)
        elif key != "name":
            settings[key] = data.text(key)
    for key, choices in _CHOICES.items():
        if settings.get(key, choices[0]) not in choices:
            raise PromptError(
                f"{key!r} must be {' or '.join(filter(None, choices))}, not {settings[key]!r}",
                where=data.place(key),
            )
    return replace(neutral, **settings)


def _word_limit(data: Mapped, key: str) -> int:
    limit = data.values[key]
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise PromptError(
            f"{key!r} must be a whole number from 1, not {limit!r}", where=data.place(key)
        )
    return limit


def _name_list(data: Mapped, key: str) -> tuple[str, ...]:
    value = data.values[key]
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(t, str) and t.strip() for t in texts):
        raise PromptError(f"{key!r} must be a list of texts, not {value!r}", where=data.place(key))
    return tuple(text.strip() for text in texts)
