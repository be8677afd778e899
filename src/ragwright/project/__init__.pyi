from ._findings import (
    Check as Check,
    index_findings as index_findings,
    model_findings as model_findings,
    unproven_models as unproven_models,
)
from ._folder import (
    ProjectFolder as ProjectFolder,
    init_project as init_project,
    project_templates as project_templates,
)
from ._guards import answer_guard as answer_guard
from ._ingesting import (
    forecast_ingest as forecast_ingest,
    ingest_sources as ingest_sources,
    last_ingest as last_ingest,
)
from ._like import (
    StoredDocuments as StoredDocuments,
    build_like as build_like,
    unfetched as unfetched,
)
from ._make_ingest import make_ingest as make_ingest
from ._model_list import ListedModel as ListedModel, list_models as list_models
from ._persona_files import (
    persona_change as persona_change,
    write_persona as write_persona,
)
from ._project import Project as Project
from ._routes import Routes as Routes
from ._run_kinds import ABLATE as ABLATE, CONFIRM as CONFIRM, SWEEP as SWEEP, TRIAL as TRIAL
from ._served import (
    Change as Change,
    Configuration as Configuration,
    Served as Served,
    changed_files as changed_files,
    configuration_from as configuration_from,
    configuration_of as configuration_of,
    keep_configuration as keep_configuration,
    not_reproducible as not_reproducible,
    promoted_settings as promoted_settings,
    run_configuration as run_configuration,
    served_project as served_project,
)
from ._session import EVERY as EVERY, AnswersUnderWay as AnswersUnderWay, Session as Session
from ._settings import (
    SERVED_SECTIONS as SERVED_SECTIONS,
    Overrides as Overrides,
    Settings as Settings,
    index_settings as index_settings,
    load_settings as load_settings,
    project_keys as project_keys,
    project_sections as project_sections,
    served_sections as served_sections,
    setting_places as setting_places,
    settings_without_file as settings_without_file,
)
from ._work import at_work as at_work
from .building import (
    Feed as Feed,
    Ingest as Ingest,
    IngestForecast as IngestForecast,
    IngestProgress as IngestProgress,
    IngestReport as IngestReport,
    Pace as Pace,
    Stamps as Stamps,
    clear_spools as clear_spools,
    forget_glossaries as forget_glossaries,
    forget_stamps as forget_stamps,
    is_mined as is_mined,
    project_glossary as project_glossary,
    reading as reading,
)
