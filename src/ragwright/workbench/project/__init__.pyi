from ._folder import ProjectFolder, init_project, project_templates
from ._job_options import JobOptions, JobStep, ProjectJob
from ._opened import Opened
from ._persona_files import PersonaChange, persona_change, write_persona
from ._served import (
    Change,
    Configuration,
    Served,
    changed_files,
    configuration_from,
    configuration_of,
    draft_declarations,
    keep_configuration,
    not_reproducible,
    run_configuration,
)
from ._session import Session
from ._settings import (
    BudgetOptions,
    Laid,
    Settings,
    SourceEntry,
    load_settings,
    project_keys,
    project_sections,
)
from ._work import at_work

__all__ = [
    "BudgetOptions",
    "Change",
    "Configuration",
    "JobOptions",
    "JobStep",
    "Laid",
    "Opened",
    "PersonaChange",
    "ProjectFolder",
    "ProjectJob",
    "Served",
    "Session",
    "Settings",
    "SourceEntry",
    "at_work",
    "changed_files",
    "configuration_from",
    "configuration_of",
    "draft_declarations",
    "init_project",
    "keep_configuration",
    "load_settings",
    "not_reproducible",
    "persona_change",
    "project_keys",
    "project_sections",
    "project_templates",
    "run_configuration",
    "write_persona",
]
