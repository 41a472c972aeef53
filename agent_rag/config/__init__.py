"""agent-rag.toml and the environment: which knowledge bases there are."""

from .settings import KnowledgeBaseSettings, Settings, knowledge_base_from, load_settings, open_store

__all__ = ["KnowledgeBaseSettings", "Settings", "knowledge_base_from", "load_settings", "open_store"]
