"""What the entries of agent-rag.toml stand for: chunkers, parsers, steps, options of a run, models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ..chat import ChatModel, OpenAIChatModel
from ..chunkers import AutoChunker, ChunkerBase, chunker_from
from ..errors import ConfigurationError
from ..ingestion import CharDedup, CharFilter, CleanText, ContextWriter, RemoveBoilerplate, TransformBase
from ..parsers import ParserBase, ParserPool, TesseractOCR, parser_for
from ..retrieval.rerank import RerankerBase
from ..sources import SourceItem
from .settings import KnowledgeBaseSettings, Settings
from .tables import ChatSettings, IngestSettings

_PLAIN: dict[str, type[TransformBase]] = {"CleanText": CleanText, "RemoveBoilerplate": RemoveBoilerplate}
_WITH_STRINGS: dict[str, Callable[..., TransformBase]] = {"CharFilter": CharFilter, "CharDedup": CharDedup}
_OF_RUNS = (
    "recursive", "include_hidden", "links", "file_facts", "metadata", "strict", "checksum", "max_prune_share",
    "source_concurrency", "document_concurrency", "embedding_batch_size", "max_concurrency", "max_file_bytes",
    "max_chunks",
)  # fmt: skip


def chunker_of(
    settings: KnowledgeBaseSettings, *, chunk_size: int | None = None, overlap: int | None = None
) -> ChunkerBase | None:
    """The chunker of a knowledge base; None where nothing is said of it, so that a source keeps its own.

    Args:
        chunk_size, overlap: Instead of those of `settings`.

    Raises: ConfigurationError: its name or an option is unknown, or the sizes do not fit.
    """
    size = settings.chunk_size if chunk_size is None else chunk_size
    shared = settings.overlap if overlap is None else overlap
    if size is None and shared is None and settings.chunker is None and not settings.chunker_options:
        return None
    largest = AutoChunker.Parameters().chunk_size if size is None else size
    if shared is not None and shared >= largest:
        raise ConfigurationError(
            f"--overlap {shared} is not smaller than --chunk-size {largest}; chunks would never end "
            "(agent-rag.toml: overlap, chunk_size)"
        )
    if shared is None and size is not None:
        shared = min(100, size // 10)
    given = {"chunk_size": size, "overlap": shared, **settings.chunker_options}
    try:
        return chunker_from(settings.chunker or "auto", {name: one for name, one in given.items() if one is not None})
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise ConfigurationError(f"chunker {settings.chunker or 'auto'!r}: {told}") from error


def parser_choice(
    settings: KnowledgeBaseSettings, *, ocr: bool | str | None = None
) -> Callable[[SourceItem], ParserBase] | None:
    """How a run chooses parsers; None where nothing is asked of them.

    Args:
        ocr: Instead of that of `settings`.
    """
    options: dict[str, Any] = dict(settings.parser_options)
    recognise = settings.ocr if ocr is None else ocr
    if recognise:
        more: dict[str, Any] = dict(settings.ocr_options)
        if isinstance(recognise, str):
            more["language"] = recognise
        try:
            options = {"ocr": TesseractOCR(**more), **options}
        except TypeError as error:
            raise ConfigurationError(f"ocr_options: {error}") from error
    if not options:
        return None

    def choose(item: SourceItem) -> ParserBase:
        content = item.path if item.path is not None else item.data
        return parser_for(item.filename, item.media_type, content, options=options)

    return choose


def transforms_of(names: Sequence[str | Mapping[str, Sequence[str]]]) -> list[TransformBase]:
    """Steps between parsing and chunking. Raises: ConfigurationError: one is unknown."""
    made: list[TransformBase] = []
    for entry in names:
        named = {entry: ()} if isinstance(entry, str) else entry
        for name, strings in named.items():
            if name in _PLAIN and not strings:
                made.append(_PLAIN[name]())
            elif name in _WITH_STRINGS and strings:
                made.append(_WITH_STRINGS[name](*strings))
            else:
                known = ", ".join([*_PLAIN, *(f'{{ {one} = ["text"] }}' for one in _WITH_STRINGS)])
                raise ConfigurationError(f"transforms has {entry!r}; use {known}")
    return made


def run_options(settings: IngestSettings) -> dict[str, Any]:
    """Options of `agent_rag.ingest`, but for the chunker, the parsers and the pool."""
    options = {name: getattr(settings, name) for name in _OF_RUNS if name in settings.model_fields_set}
    if settings.transforms is not None:
        options["transforms"] = transforms_of(settings.transforms)
    return options


def pool_of(settings: IngestSettings) -> ParserPool:
    """The processes that read files."""
    return ParserPool(settings.workers, timeout_s=settings.timeout_s, memory_mb=settings.memory_mb)


def chat_model_of(settings: ChatSettings) -> OpenAIChatModel:
    """The language model of ``[chat]``. Raises: ConfigurationError: no model is named."""
    return OpenAIChatModel(
        settings.model,
        base_url=settings.base_url,
        timeout_s=settings.timeout_s,
        max_attempts=settings.max_attempts,
        supports_images=settings.supports_images,
        options=settings.options,
    )


def contexts_of(settings: IngestSettings, chat: ChatSettings) -> ContextWriter | None:
    """What writes lines of context; None: they are not asked for. Raises: ConfigurationError: no model is named."""
    return ContextWriter(chat_model_of(chat)) if settings.contexts else None


def reranker_of(settings: Settings, model: ChatModel | None = None) -> RerankerBase | None:
    """The reranker of ``[reranker]``; None without that table.

    Args:
        model: The language model for ``kind = "llm"``; default: that of ``[chat]``.

    Raises: ConfigurationError: an option does not fit.
    """
    chosen = settings.reranker
    if chosen is None:
        return None
    from ..retrieval import CrossEncoderReranker, HTTPReranker, LLMReranker

    options: dict[str, Any] = dict(chosen.options)
    try:
        if chosen.kind == "llm":
            return LLMReranker(model or chat_model_of(settings.chat), **options)
        if chosen.kind == "cross-encoder":
            return CrossEncoderReranker(chosen.model, **options)
        return HTTPReranker(chosen.kind, model=chosen.model, **options)
    except TypeError as error:
        raise ConfigurationError(f"[reranker] {chosen.kind}: {error}") from error
