from ._addresses import (
    filled_address as filled_address,
    holds_secret as holds_secret,
    notice_address_faults as notice_address_faults,
    without_secret as without_secret,
)
from ._build import (
    build_options as build_options,
    changed_options as changed_options,
    described_options as described_options,
    overlaid as overlaid,
    unknown_key as unknown_key,
)
from ._citation_marks import CitationMark as CitationMark, citation_marks as citation_marks
from ._counting import counted as counted
from ._csv import (
    csv_cell as csv_cell,
    csv_formula as csv_formula,
    csv_lines as csv_lines,
    csv_text as csv_text,
)
from ._errors import (
    AddressRefusedError as AddressRefusedError,
    BudgetStopped as BudgetStopped,
    ChunkError as ChunkError,
    ConfigError as ConfigError,
    DatabaseError as DatabaseError,
    DuplicateIdError as DuplicateIdError,
    DuplicateKeyError as DuplicateKeyError,
    EmptySourceError as EmptySourceError,
    EncryptedSourceError as EncryptedSourceError,
    EngineError as EngineError,
    FetchError as FetchError,
    FilterError as FilterError,
    FlowError as FlowError,
    GatherError as GatherError,
    Interrupted as Interrupted,
    JobError as JobError,
    MalformedSourceError as MalformedSourceError,
    MeasureError as MeasureError,
    MissingExtraError as MissingExtraError,
    MissingKeyError as MissingKeyError,
    ModelError as ModelError,
    ModelRefusedError as ModelRefusedError,
    ModelReplyError as ModelReplyError,
    ModelTimeoutError as ModelTimeoutError,
    ModelUnavailableError as ModelUnavailableError,
    ModelUnreachableError as ModelUnreachableError,
    NoticeError as NoticeError,
    PatternError as PatternError,
    PluginError as PluginError,
    PromptError as PromptError,
    PromptTooLongError as PromptTooLongError,
    RagwrightError as RagwrightError,
    RateLimitedError as RateLimitedError,
    RecordsError as RecordsError,
    RetrieveError as RetrieveError,
    SchemaVersionError as SchemaVersionError,
    SnapshotGoneError as SnapshotGoneError,
    SourceError as SourceError,
    StatementError as StatementError,
    StoppedError as StoppedError,
    StoreBusyError as StoreBusyError,
    StoreDamagedError as StoreDamagedError,
    StoreError as StoreError,
    StoreFullError as StoreFullError,
    StoreUnreachableError as StoreUnreachableError,
    StudyError as StudyError,
    SystemCallError as SystemCallError,
    TestsetError as TestsetError,
    TrainingError as TrainingError,
    UnhandledRequestError as UnhandledRequestError,
    UnsupportedSourceError as UnsupportedSourceError,
)
from ._hashing import (
    canonical_json as canonical_json,
    text_hash as text_hash,
    value_hash as value_hash,
    values_hash as values_hash,
)
from ._headers import retry_after as retry_after
from ._limits import address_space as address_space, bounded_work as bounded_work
from ._mapping import (
    Mapped as Mapped,
    listed as listed,
    near as near,
    read_mapping as read_mapping,
    shipped_mapping as shipped_mapping,
)
from ._metadata import meta_value as meta_value
from ._notebook import (
    frame_of as frame_of,
    html_table as html_table,
    shortened as shortened,
)
from ._options import NamedOptions as NamedOptions, option as option
from ._parts import (
    Addition as Addition,
    Part as Part,
    PartKind as PartKind,
    added as added,
    addition as addition,
    addition_faults as addition_faults,
    additions_of_others as additions_of_others,
    load_addition as load_addition,
)
from ._patterns import late_pattern as late_pattern
from ._people import current_user as current_user
from ._plain import plain as plain, plain_row as plain_row
from ._plugins import (
    import_plugins_from as import_plugins_from,
    load_object as load_object,
    plugin_folder as plugin_folder,
    require as require,
    spawning as spawning,
)
from ._records import (
    Answer as Answer,
    Assignment as Assignment,
    ChannelScore as ChannelScore,
    Chunk as Chunk,
    Citation as Citation,
    ClosestPassage as ClosestPassage,
    Counted as Counted,
    Document as Document,
    Filter as Filter,
    GoldSpan as GoldSpan,
    Hit as Hit,
    Importance as Importance,
    Metadata as Metadata,
    MetaValue as MetaValue,
    Nugget as Nugget,
    Page as Page,
    Persona as Persona,
    Relaxation as Relaxation,
    RelaxationLevel as RelaxationLevel,
    Row as Row,
    Score as Score,
    ScoreState as ScoreState,
    Section as Section,
    SoftFilter as SoftFilter,
    Span as Span,
    Term as Term,
    Usage as Usage,
    prefix_filter as prefix_filter,
    ranked as ranked,
)
from ._templates import (
    guarded as guarded,
    neutral as neutral,
    passage_values as passage_values,
    render as render,
    without_control as without_control,
)
from ._unicode import well_formed as well_formed
from ._whole_files import (
    appending as appending,
    replace_text as replace_text,
    replacing as replacing,
)
from ._workers import (
    PatternToken as PatternToken,
    WorkerEndedError as WorkerEndedError,
    ask_worker as ask_worker,
    run_pattern as run_pattern,
    serve_requests as serve_requests,
    workers as workers,
)
from ._yaml import (
    Placed as Placed,
    parse_yaml as parse_yaml,
    read_yaml as read_yaml,
    scalar as scalar,
)
